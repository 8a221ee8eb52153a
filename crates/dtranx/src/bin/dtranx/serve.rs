//! One server, until it is killed: there is no other end, and none is needed, because it can be
//! killed at any moment.

use std::io::Read;
use std::time::Duration;

use clap::Args;
use dtranx::core::StoreId;
use dtranx::server::{Server, ServerError, raise_descriptor_limit};

use crate::failure::Failure;
use crate::say::tell;
use crate::which::WhichServer;

#[derive(Args)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    which: WhichServer,
    /// Id of the lost store whose place this member's new one takes, on an empty folder: as the
    /// others name it when they refuse the new one; may be given several times, if they name
    /// several
    #[arg(long, value_name = "STORE", value_parser = store)]
    replace: Vec<StoreId>,
    /// Address to listen on, if it is not the server's address in the cluster (behind a proxy)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<std::net::SocketAddr>,
    /// Address for metrics (Prometheus)
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<std::net::SocketAddr>,
    /// Limit of connections of clients [default: what the limit of open files leaves, up to 4096]
    #[arg(long, value_name = "NUMBER")]
    client_connections: Option<u32>,
    /// Memory for clients, in MiB: requests on the way and under way, answers that are not sent
    /// [default: 256]
    #[arg(long, value_name = "MIB")]
    client_mib: Option<u64>,
    /// Time without a request after which a client's connection is closed, in milliseconds; 0:
    /// never [default: 600000]
    #[arg(long, value_name = "MS")]
    client_idle_ms: Option<u64>,
    /// Time limit of a request's wait for locks, in milliseconds [default: 1000]
    #[arg(long, value_name = "MS")]
    lock_wait_ms: Option<u64>,
    /// Time for which a request that has locks on other servers waits behind an older one while
    /// nothing changes, in milliseconds: 1 to 1000 [default: 10]
    #[arg(long, value_name = "MS")]
    lock_patience_ms: Option<u64>,
    /// Time for which locks are kept for another attempt of a transaction whose reads were stale,
    /// in milliseconds: 0 (not at all) to 1000 [default: 100]
    #[arg(long, value_name = "MS")]
    lock_keep_ms: Option<u64>,
    /// Ends when standard input is closed, as it is when the parent ends
    #[arg(long)]
    until_stdin_closes: bool,
}

fn store(text: &str) -> Result<StoreId, String> {
    StoreId::parse(text).ok_or_else(|| "a store's id has 32 hexadecimal digits".to_owned())
}

pub(crate) fn serve(options: &ServeOptions) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let mut config = options.which.config()?;
    config.replace.clone_from(&options.replace);
    config.listen = options.listen.or(config.listen);
    config.metrics = options.metrics.or(config.metrics);
    config.client_connections = options.client_connections.or(config.client_connections);
    config.client_bytes = options.client_mib.map_or(config.client_bytes, |mib| mib.saturating_mul(1 << 20));
    config.client_idle_ms = options.client_idle_ms.unwrap_or(config.client_idle_ms);
    config.lock_wait_ms = options.lock_wait_ms.unwrap_or(config.lock_wait_ms);
    config.lock_patience_ms = options.lock_patience_ms.unwrap_or(config.lock_patience_ms);
    config.lock_keep_ms = options.lock_keep_ms.unwrap_or(config.lock_keep_ms);
    raise_descriptor_limit();
    if options.until_stdin_closes {
        std::thread::spawn(|| {
            // Input is read and ignored until it ends.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
    }
    let server = Server::start(&config).map_err(|error| failed(&error))?;
    let member = server.member().map_or(String::new(), |member| format!("member {member} of "));
    tell(format_args!(
        "{member}server {} of {:?} listens on {}; {} records replayed; log: {}",
        config.server,
        config.cluster.name,
        server.address(),
        server.recovered_records(),
        server.medium()
    ));
    loop {
        server.wait(Duration::from_secs(3600)).map_err(|error| match error {
            ServerError::Removed { .. } => Failure::Removed(error.to_string()),
            error => failed(&error),
        })?;
    }
}
