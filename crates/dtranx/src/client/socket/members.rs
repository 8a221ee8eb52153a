//! The members of a group, which are called in turn.

use std::net::SocketAddr;

/// Addresses of a server, and the one that is called next.
pub(super) struct Members {
    addresses: Vec<SocketAddr>,
    at: usize,
}

impl Members {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, at: 0 }
    }

    /// Members have come or gone: takes over the addresses of those of now.
    pub(super) fn renew(&mut self, addresses: Vec<SocketAddr>) {
        let current = self.address();
        self.at = addresses.iter().position(|address| *address == current).unwrap_or(0);
        self.addresses = addresses;
    }

    /// Address that is called now. A server has at least one.
    pub(super) fn address(&self) -> SocketAddr {
        self.addresses.get(self.at).copied().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Goes on to the member that leads, by what the last one has said, or else to the next one.
    pub(super) fn go_on(&mut self, leads: Option<u8>) {
        let named = leads.and_then(|member| usize::from(member).checked_sub(1));
        let named = named.filter(|at| *at < self.addresses.len() && *at != self.at);
        self.at = named.unwrap_or((self.at + 1) % self.addresses.len().max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_called_in_turn_unless_one_is_said_to_lead() {
        let addresses = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut members = Members::new(addresses.to_vec());
        let mut ports = Vec::new();
        for leads in [None, None, None, Some(3), Some(3), Some(0), Some(9)] {
            ports.push(members.address().port());
            members.go_on(leads);
        }
        assert_eq!(ports, [1, 2, 3, 1, 3, 1, 2]);
    }

    #[test]
    fn member_that_was_called_last_stays_the_same_one_among_others() {
        let addresses = |ports: &[u16]| ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect();
        let mut members = Members::new(addresses(&[1, 2, 3]));
        members.go_on(Some(3));
        members.renew(addresses(&[2, 3, 4, 5]));
        assert_eq!(members.address().port(), 3);
        members.go_on(None);
        members.renew(addresses(&[7, 8]));
        assert_eq!(members.address().port(), 7, "it is gone");
        members.go_on(Some(2));
        assert_eq!(members.address().port(), 8);
    }
}
