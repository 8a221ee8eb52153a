//! The entry that a target's folder hands to the registry: its traits, and the function that
//! connects it.

use futures_util::future::BoxFuture;

use super::{Connection, Target, Traits};
use crate::error::BenchError;

/// A function that connects a target.
pub type Connect = fn(Connection) -> BoxFuture<'static, Result<Box<dyn Target>, BenchError>>;

/// A target of the registry.
pub struct Entry {
    /// Name of the target, and what it is and can do.
    pub traits: Traits,
    /// Function that connects the target to a server.
    pub connect: Connect,
}
