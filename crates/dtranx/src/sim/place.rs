//! Places where nodes run: a server that runs alone has one, a group has one for each member.

use std::fmt;

use crate::core::ServerId;

/// A place where a node of a server runs, with a disk of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) server: ServerId,
    /// Number of the member, from 1 on; 0 for a server that runs alone.
    pub(crate) member: u8,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            0 => self.server.fmt(f),
            member => write!(f, "{}/{member}", self.server),
        }
    }
}
