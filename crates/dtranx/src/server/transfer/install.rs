//! Lets a transfer that is whole count.

use crate::log::{Beginning, Medium, TranxLog};
use crate::server::identity::Identity;
use crate::server::{ServerConfig, ServerError, data};

use super::Whole;

/// Begins the log beside the items that were transferred, and then says in `identity.toml` that
/// both count. The member does not run: its log is locked here.
///
/// # Errors
/// The store is not as it was left, or a file cannot be written. What counted before counts still.
pub(in crate::server) fn install(config: &ServerConfig, whole: Whole) -> Result<(), ServerError> {
    let (old, mut identity) = data::open(config, Identity::existing)?;
    begin_log(config, &*old, &identity, whole)?;
    let next = identity.folders().next();
    identity.move_to(next)
}

/// Begins the new log. It does not count yet.
pub(super) fn begin_log(
    config: &ServerConfig,
    old: &dyn Medium,
    identity: &Identity,
    whole: Whole,
) -> Result<(), ServerError> {
    let new = data::new_log(config, &identity.folders().next().log(config))?;
    let Whole { before, configured, gc_payload, state } = whole;
    let options = data::log_options(config, identity);
    Beginning { before, configured, gc_payload }.make(&*new, old, &options, state)?;
    // It gets its first segment: tools take a log without any for one that has lost them.
    TranxLog::open(new, &options, |_, _| Ok(()))?;
    Ok(())
}
