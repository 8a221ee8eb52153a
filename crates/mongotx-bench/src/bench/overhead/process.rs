//! Processes between client and server: this program run again as a gateway or as the proxy that
//! only forwards messages.

use std::{process::Stdio, time::Duration};

use mongodb::options::ClientOptions;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::bench::BenchError;

/// Time limit for reporting the address, and for the end.
const LIMIT: Duration = Duration::from_secs(30);

/// A gateway, or the proxy. Dropped, it is killed.
pub(crate) struct GatewayProcess {
    child: Child,
    pub(crate) uri: String,
}

impl GatewayProcess {
    /// Starts a gateway on a free port.
    pub(crate) async fn start(server: &str, tx_database: &str) -> Result<Self, BenchError> {
        Self::run(&["bench-gateway", "--uri", server, "--tx-database", tx_database]).await
    }

    /// Starts the proxy on a free port.
    pub(crate) async fn proxy(server: &str) -> Result<Self, BenchError> {
        let options = ClientOptions::parse(server).await?;
        let address = options.hosts.first().map(ToString::to_string).unwrap_or_default();
        Self::run(&["bench-proxy", &address]).await
    }

    async fn run(args: &[&str]) -> Result<Self, BenchError> {
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(&error))?;
        let stdout = child.stdout.take().ok_or_else(|| failed(&"it has no output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(LIMIT, lines.next_line()).await;
        let line = line.map_err(|late| failed(&late))?.map_err(|error| failed(&error))?.unwrap_or_default();
        match line.strip_prefix("listening on ") {
            Some(uri) => Ok(Self { child, uri: uri.to_owned() }),
            None => Err(failed(&"it did not say where it listens; `mongotx-bench bench-gateway --uri URI` tells why")),
        }
    }

    /// Resident memory of the process, in bytes.
    pub(crate) fn memory_bytes(&self) -> Result<u64, BenchError> {
        let id = self.child.id().ok_or_else(|| failed(&"it has ended"))?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).map_err(|error| failed(&error))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kb.map(|kb| kb * 1024).ok_or_else(|| failed(&"the system does not tell its memory"))
    }

    /// Ends the process of the gateway.
    pub(crate) async fn end(mut self) -> Result<(), BenchError> {
        if let Some(id) = self.child.id() {
            local_mongod::signal::terminate(id).map_err(|error| failed(&error))?;
        }
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await;
        ended.map_err(|late| failed(&late))?.map_err(|error| failed(&error)).map(drop)
    }
}

fn failed(reason: &dyn std::fmt::Display) -> BenchError {
    BenchError::Failed(format!("the gateway's process: {reason}"))
}
