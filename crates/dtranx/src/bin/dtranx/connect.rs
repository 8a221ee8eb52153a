//! Options by which the commands for people find and reach a cluster.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use dtranx::client::{Client, ClientOptions};
use dtranx::wire::Secret;

use crate::failure::Failure;

#[derive(Args)]
pub(crate) struct Connect {
    /// Address of a server of the cluster; may be given several times: the first that answers names
    /// all servers
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7101", global = true)]
    server: Vec<SocketAddr>,
    /// Time limit of a request, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000, global = true)]
    timeout_ms: u64,
    /// The file with the secret of the cluster's clients, if it has one
    #[arg(long, value_name = "FILE", global = true)]
    secret_file: Option<std::path::PathBuf>,
}

impl Connect {
    /// Secret of the cluster's clients, if there is one.
    pub(crate) fn secret(&self) -> Result<Option<Secret>, Failure> {
        self.secret_file.as_deref().map(Secret::read).transpose().map_err(Failure::Failed)
    }

    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let longest = Duration::from_secs(3600).as_millis() as u64;
        let secret = self.secret()?;
        let options = ClientOptions { request_ms: self.timeout_ms.min(longest), secret, ..ClientOptions::default() };
        Ok(Client::connect(&self.server, options)?)
    }
}
