//! Whether all that a server has is there and undamaged.

use std::path::PathBuf;

use clap::Args;
use dtranx::server::{ServerConfig, verify};

use crate::failure::Failure;
use crate::say::say;

#[derive(Args)]
pub(crate) struct Options {
    /// The server's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Which server of the cluster, instead of the file's own
    #[arg(long, value_name = "ID")]
    id: Option<u16>,
    /// Where its data are, instead of the file's own
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let mut config =
        ServerConfig::read(&options.config, options.id).map_err(|error| Failure::Failed(error.to_string()))?;
    if let Some(folder) = &options.folder {
        config.log_folder = folder.join("log");
        config.folder.clone_from(folder);
    }
    let found = verify(&config).map_err(|error| Failure::No(error.to_string()))?;
    say!("server {} of {:?}: identity, log and items belong together", config.server, config.cluster.name);
    say!("log: {} segments, {} records, no damage", found.segments, found.records);
    say!("in doubt: {} transactions of other servers", found.in_doubt);
    say!("items: {}, all of them whole", found.items);
    if found.misplaced > 0 {
        return Err(Failure::No(format!("{} of the items belong to other servers by the map", found.misplaced)));
    }
    Ok(())
}
