//! Recovery (section 4.4 of the paper): [`local`], what the log says, before anything runs; and
//! global, what others know, while everything runs.

mod global;
pub mod local;

pub use local::Recovery;

pub(crate) use global::{RecoveryEvent, RecoveryService};
