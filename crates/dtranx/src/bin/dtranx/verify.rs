//! The command that checks that all data of a server is there and undamaged.

use clap::Args;
use dtranx::log::LogError;
use dtranx::server::{ServerError, verify};

use crate::failure::Failure;
use crate::say::say;
use crate::which::WhichServer;

#[derive(Args)]
pub(crate) struct VerifyOptions {
    #[command(flatten)]
    which: WhichServer,
}

pub(crate) fn verify_server(options: &VerifyOptions) -> Result<(), Failure> {
    let config = options.which.config()?;
    let found = verify(&config).map_err(|error| match error {
        ServerError::Config(_) | ServerError::Io { .. } | ServerError::Log(LogError::InUse { .. }) => {
            Failure::Failed(error.to_string())
        }
        error if !config.folder.exists() => Failure::Failed(error.to_string()),
        error => Failure::No(error.to_string()),
    })?;
    say!("server {} of {:?}: identity, log and items belong together", config.server, config.cluster.name);
    say!("log: {} segments, {} records, no damage", found.segments, found.records);
    if found.uncommitted > 0 {
        say!("log: {} more records, which are not known to be committed", found.uncommitted);
    }
    let listed = if found.in_doubt > 0 { "; `dtranx resolve` lists them" } else { "" };
    say!("in doubt: {} transactions of other servers{listed}", found.in_doubt);
    say!("items: {}, all of them whole", found.items);
    if found.misplaced > 0 {
        return Err(Failure::No(format!("{} of the items belong to other servers by the map", found.misplaced)));
    }
    Ok(())
}
