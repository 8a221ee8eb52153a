//! The time at which a transaction began, for what nothing has changed since
//! ([`crate::coordinator::validating::unchanged`]).

use std::sync::Arc;

use super::{changes::ChangeLook, own_changes::Mark};

/// The time at which a transaction began.
#[derive(Clone)]
pub(crate) struct Base {
    /// The last look at the change stamps.
    pub(in crate::coordinator) look: Arc<ChangeLook>,
    /// The moment in what this client itself changes.
    pub(in crate::coordinator) own: Mark,
}
