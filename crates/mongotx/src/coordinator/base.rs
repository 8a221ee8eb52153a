//! The time at which a transaction began, for what nothing has changed since
//! ([`super::unchanged`]).

use std::sync::Arc;

use super::{changes::ChangeLook, own_changes::Mark};

/// The time at which a transaction began.
#[derive(Clone)]
pub(crate) struct Base {
    /// The last look at the change stamps.
    pub(super) look: Arc<ChangeLook>,
    /// The moment in what this client itself changes.
    pub(super) own: Mark,
}
