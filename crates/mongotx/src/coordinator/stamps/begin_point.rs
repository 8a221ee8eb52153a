//! The point at which a transaction began, in the changes of others and in those of this client: at
//! its commit nothing may have changed since ([`crate::coordinator::validating::unchanged`]).

use std::sync::Arc;

use super::{change_look::ChangeLook, own_changes::ChangeMark};

/// The point at which a transaction began, in the changes of others and of this client.
#[derive(Clone)]
pub(crate) struct BeginPoint {
    /// The last look at the change stamps.
    pub(in crate::coordinator) look: Arc<ChangeLook>,
    /// The moment in what this client itself changes.
    pub(in crate::coordinator) own: ChangeMark,
}
