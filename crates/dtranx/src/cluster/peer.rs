//! [`PeerId`]: a server, or a member of a server that is a group.

use std::fmt;

use crate::core::ServerId;

/// A server that runs alone, or one member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PeerId {
    pub(crate) server: ServerId,
    /// Number of the member, from 1 on, if the server is a group.
    pub(crate) member: Option<u8>,
}

impl PeerId {
    pub(crate) const fn member(server: ServerId, member: u8) -> Self {
        Self { server, member: Some(member) }
    }

    /// Reads what [`fmt::Display`] has written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once('.') {
            None => text.parse().ok().map(|server| ServerId(server).into()),
            Some((server, member)) => Some(Self::member(ServerId(server.parse().ok()?), member.parse().ok()?)),
        }
    }
}

impl From<ServerId> for PeerId {
    fn from(server: ServerId) -> Self {
        Self { server, member: None }
    }
}

/// As the server, and behind a point the member.
impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            None => write!(f, "{}", self.server),
            Some(member) => write!(f, "{}.{member}", self.server),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_read_as_they_are_written() {
        for peer in [ServerId(7).into(), PeerId::member(ServerId(7), 2)] {
            assert_eq!(PeerId::parse(&peer.to_string()), Some(peer));
        }
        assert_eq!([PeerId::parse("7."), PeerId::parse("x"), PeerId::parse("7.256")], [None; 3]);
    }
}
