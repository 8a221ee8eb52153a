//! Options that name a server: its configuration, and values instead of some in there.

use std::net::SocketAddr;
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
    /// Address of a new store that is to join the group, in the place of a number: it waits there
    /// until `dtranx member add` names the address, and goes on listening there
    #[arg(long, value_name = "ADDRESS", conflicts_with = "member")]
    join: Option<SocketAddr>,
    /// Folder of the server's data, instead of the file's own
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl WhichServer {
    /// Reads the configuration. If the command names a folder, that holds the log, too.
    pub(crate) fn config(&self) -> Result<ServerConfig, Failure> {
        let read = match self.join {
            Some(join) => ServerConfig::read_joining(&self.config, self.id, join),
            None => ServerConfig::read_member(&self.config, self.id, self.member),
        };
        let mut config = read.map_err(|error| Failure::Failed(error.to_string()))?;
        if let Some(folder) = &self.folder {
            config.log_folder = folder.join("log");
            config.folder.clone_from(folder);
        }
        config.with_number().map_err(|error| Failure::Failed(error.to_string()))
    }
}
