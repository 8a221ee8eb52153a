//! Options that name a server: its configuration, and values instead of some in there.

use std::path::PathBuf;

use clap::Args;
use dtranx::server::ServerConfig;

use crate::failure::Failure;

#[derive(Args)]
pub(crate) struct WhichServer {
    /// The server's configuration, in TOML: docs/dtranx.md
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Number of the server in the cluster, instead of the file's own
    #[arg(long, value_name = "ID")]
    id: Option<u16>,
    /// Number of the member, if the server is a group, instead of the file's own
    #[arg(long, value_name = "NUMBER")]
    member: Option<u8>,
    /// Folder of the server's data, instead of the file's own
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl WhichServer {
    /// Reads the configuration. If the command names a folder, that holds the log, too.
    pub(crate) fn config(&self) -> Result<ServerConfig, Failure> {
        let read = ServerConfig::read_member(&self.config, self.id, self.member);
        let mut config = read.map_err(|error| Failure::Failed(error.to_string()))?;
        if let Some(folder) = &self.folder {
            config.log_folder = folder.join("log");
            config.folder.clone_from(folder);
        }
        Ok(config)
    }
}
