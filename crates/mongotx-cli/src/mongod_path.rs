//! `mongotx mongod-path`: prints the path of the mongod that the demo and `serve --start-server`
//! run, for scripts that start one themselves.

use crate::{
    failure::{Failure, Status, WELL},
    say,
};

/// Runs `mongotx mongod-path`. It may take minutes when the mongod has to be fetched.
pub(crate) fn run_mongod_path() -> Result<Status, Failure> {
    let path = local_mongod::locate()?;
    say::line(&say::plain(&path.display().to_string()));
    Ok(WELL)
}
