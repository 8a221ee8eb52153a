//! One server, until it is killed: there is no other end, and none is needed, because it can be killed at any moment.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dtranx::server::{Server, ServerConfig};

use crate::failure::Failure;
use crate::say::tell;

#[derive(Args)]
pub(crate) struct Options {
    /// The configuration, in TOML: docs/dtranx.md
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Which server of the cluster, instead of the file's own
    #[arg(long, value_name = "ID")]
    id: Option<u16>,
    /// Where its data are, instead of the file's own
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Listen here, if it is not the server's address in the cluster: behind a proxy
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<std::net::SocketAddr>,
    /// Serve Prometheus at this address
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<std::net::SocketAddr>,
    /// End when the standard input is closed: when the parent ends
    #[arg(long)]
    until_stdin_closes: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let mut config = ServerConfig::read(&options.config, options.id).map_err(|error| failed(&error))?;
    if let Some(folder) = &options.folder {
        config.log_folder = folder.join("log");
        config.folder.clone_from(folder);
    }
    config.listen = options.listen.or(config.listen);
    config.metrics = options.metrics.or(config.metrics);
    if options.until_stdin_closes {
        std::thread::spawn(|| {
            // Whatever comes is ignored; the end counts.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
    }
    let server = Server::start(&config).map_err(|error| failed(&error))?;
    tell(format_args!(
        "server {} of {:?} listens on {}; {} records replayed; log: {}",
        config.server,
        config.cluster.name,
        server.address(),
        server.recovered_records(),
        server.medium()
    ));
    loop {
        server.wait(Duration::from_secs(3600)).map_err(|error| failed(&error))?;
    }
}
