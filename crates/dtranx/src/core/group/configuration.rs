//! Who counts: a configuration of the group, and majorities by it (decision 0088).
//!
//! A configuration is an entry of the log, and in force from the moment that it is there, committed
//! or not. Voters change by a joint configuration, in which a majority of the voters is needed and
//! one of the next voters. Learners count nowhere.

use std::collections::BTreeSet;

use noraft::{ClusterConfig, NodeId};

use super::id::{MemberId, Position};

/// The members of a group, and which of them have a vote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Configuration {
    pub(crate) voters: BTreeSet<MemberId>,
    /// Voters after the change that is under way; empty if there is none.
    pub(crate) next: BTreeSet<MemberId>,
    /// Members that get entries and items, and have no vote.
    pub(crate) learners: BTreeSet<MemberId>,
}

/// A configuration, and the place of its entry in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Placed {
    pub(crate) at: Position,
    pub(crate) configuration: Configuration,
}

impl Configuration {
    /// A group whose members all have a vote.
    pub(crate) fn of(voters: BTreeSet<MemberId>) -> Self {
        Self { voters, ..Self::default() }
    }

    /// Returns true if a change of voters is under way.
    pub(crate) fn is_joint(&self) -> bool {
        !self.next.is_empty()
    }

    pub(crate) fn has_vote(&self, member: MemberId) -> bool {
        self.voters.contains(&member) || self.next.contains(&member)
    }

    pub(crate) fn contains(&self, member: MemberId) -> bool {
        self.has_vote(member) || self.learners.contains(&member)
    }

    /// All members, those without a vote too.
    pub(crate) fn members(&self) -> BTreeSet<MemberId> {
        self.voters.iter().chain(&self.next).chain(&self.learners).copied().collect()
    }

    /// Puts another store in the place of this one.
    #[cfg(test)]
    pub(crate) fn rename(&mut self, old: MemberId, new: MemberId) {
        for members in [&mut self.voters, &mut self.next, &mut self.learners] {
            if members.remove(&old) {
                members.insert(new);
            }
        }
    }

    /// Returns true if those that count are a majority of the voters, and of the next voters if
    /// there are any.
    pub(crate) fn is_majority(&self, counts: impl Fn(MemberId) -> bool) -> bool {
        let is_majority = |of: &BTreeSet<MemberId>| of.iter().filter(|member| counts(**member)).count() > of.len() / 2;
        is_majority(&self.voters) && (self.next.is_empty() || is_majority(&self.next))
    }
}

#[cfg(test)]
impl Placed {
    /// The first configuration of a group, which is not in its log.
    pub(crate) fn first(voters: BTreeSet<MemberId>) -> Self {
        Self { at: Position::ZERO, configuration: Configuration::of(voters) }
    }
}

impl From<&ClusterConfig> for Configuration {
    fn from(config: &ClusterConfig) -> Self {
        let members = |nodes: &BTreeSet<NodeId>| nodes.iter().map(|node| MemberId::from(*node)).collect();
        Self {
            voters: members(&config.voters),
            next: members(&config.new_voters),
            learners: members(&config.non_voters),
        }
    }
}

impl From<&Configuration> for ClusterConfig {
    fn from(configuration: &Configuration) -> Self {
        let nodes = |members: &BTreeSet<MemberId>| members.iter().map(|member| NodeId::from(*member)).collect();
        let mut config = Self::new();
        config.voters = nodes(&configuration.voters);
        config.new_voters = nodes(&configuration.next);
        config.non_voters = nodes(&configuration.learners);
        config
    }
}
