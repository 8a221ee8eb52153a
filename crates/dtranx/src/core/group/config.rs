//! What a member's machine is started with, beside what its log has.

use super::{configuration::Placed, flaw::Flaw, id::MemberId, promised::Rejoin};

/// The members of a group, and which of them this one is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Config {
    pub(crate) me: MemberId,
    /// The configuration before the first entry of the log, or a later one that was told to an
    /// empty store: it is committed.
    pub(crate) before: Placed,
    /// State of this one if its store has taken a lost one's place, and it has no vote yet.
    pub(crate) rejoins: Option<Rejoin>,
    /// Rule that is broken on purpose, in tests only.
    #[cfg(test)]
    pub(crate) flaw: Option<Flaw>,
}

impl Config {
    #[cfg(test)]
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "a test asks the configuration")]
    pub(super) const fn has(&self, _: Flaw) -> bool {
        false
    }
}
