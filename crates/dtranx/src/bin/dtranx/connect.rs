//! Options by which the commands for people find and reach a cluster.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use dtranx::client::{Client, ClientOptions, Error};
use dtranx::remark;
use dtranx::wire::Secret;

use crate::failure::Failure;

/// Time after which a command that reads says why it waits.
const REMARK: Duration = Duration::from_secs(2);
/// Time after which it gives up.
const LONGEST: Duration = Duration::from_secs(120);

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
        self.client_with(ClientOptions::default())
    }

    fn client_with(&self, options: ClientOptions) -> Result<Client, Failure> {
        let longest = Duration::from_secs(3600).as_millis() as u64;
        let secret = self.secret()?;
        let options = ClientOptions { request_ms: self.timeout_ms.min(longest), secret, ..options };
        Ok(Client::connect(&self.server, options)?)
    }

    /// A client for [`patiently`]: it soon says why it waits.
    pub(crate) fn patient_client(&self) -> Result<Client, Failure> {
        self.client_with(ClientOptions { transact_ms: REMARK.as_millis() as u64, ..ClientOptions::default() })
    }
}

/// Reads something as often as it is refused within two minutes, and says what it waits for.
pub(crate) fn patiently<T>(mut read: impl FnMut() -> Result<T, Error>) -> Result<T, Failure> {
    let (begun, mut said) = (Instant::now(), String::new());
    loop {
        match read() {
            Err(Error::GivenUp { last, .. }) if begun.elapsed() < LONGEST => {
                let last = last.to_string();
                if last != said {
                    remark::say(format_args!("{last}; it is tried again, for {} s at most", LONGEST.as_secs()));
                    said = last;
                }
            }
            Err(Error::GivenUp { last, .. }) => {
                return Err(Failure::No(format!("given up after {} s: {last}", begun.elapsed().as_secs())));
            }
            other => return Ok(other?),
        }
    }
}
