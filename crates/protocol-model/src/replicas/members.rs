//! Members of the replica set: their logs, elections, and the data of the majority.
//!
//! An entry of a log holds the data after it. Two entries with the same position and term are the
//! same, because a term has one primary. Entries that all members have are cut off, except for the
//! last one.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use crate::{server::Data, shared::Shared};

/// Number of members of the replica set.
pub const MEMBERS: usize = 3;
/// Number of members that may become primary, the first ones; the others only vote and follow.
pub const ELECTABLE: usize = 2;

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term of the primary that wrote it.
    pub term: u8,
    /// Content of the data after the entry.
    pub data: Shared<Data>,
    /// Hash of the data, computed once because each state's hash needs it.
    digest: u64,
}

impl Entry {
    fn new(term: u8, data: Shared<Data>) -> Self {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        Self { term, digest: hasher.finish(), data }
    }
}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.term, self.digest).hash(hasher);
    }
}

/// A member of the replica set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Log of the member, oldest entry first.
    pub log: Vec<Entry>,
    /// Newest term that the member has heard of.
    pub term: u8,
    /// True if the member takes itself for the primary of that term.
    pub primary: bool,
}

/// Position of a command that a primary has executed: of a write, or of a read that waits like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    /// The member that executed it.
    pub member: usize,
    /// The term of that primary.
    pub term: u8,
    /// Length of the primary's log after the command.
    pub length: usize,
}

/// The members of the replica set, and the entry that is safe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Members {
    /// The members of the set, by index.
    pub all: Vec<Member>,
    /// Auxiliary: the last entry that a majority has for good.
    pub durable: Entry,
}

impl Members {
    /// Members that all follow member 0, the primary in term 1.
    pub fn new(data: Data) -> Self {
        let entry = Entry::new(1, Shared::new(data));
        let member = |m| Member { log: vec![entry.clone()], term: 1, primary: m == 0 };
        Self { all: (0..MEMBERS).map(member).collect(), durable: entry }
    }

    /// The data of a member.
    pub fn data(&self, m: usize) -> &Data {
        &self.all[m].log[self.all[m].log.len() - 1].data
    }

    /// The oldest data that a read at `majority` may show on this primary. A new primary does not
    /// know the majority's data until another member has followed it.
    pub fn majority_read(&self, m: usize) -> &Data {
        let followed =
            self.all.iter().enumerate().any(|(other, member)| {
                other != m && member.log.last().map(|entry| entry.term) >= Some(self.all[m].term)
            });
        if followed { &self.durable.data } else { &self.all[m].log[0].data }
    }

    /// The newest term of all members.
    pub fn newest_term(&self) -> u8 {
        self.all.iter().map(|member| member.term).max().unwrap_or(0)
    }

    /// Runs a command on a primary. A command that changes nothing leaves no entry and waits for
    /// all entries before it.
    pub fn execute<T>(&mut self, m: usize, command: impl FnOnce(&mut Data) -> T) -> (T, Sent) {
        let mut data = self.data(m).clone();
        let answer = command(&mut data);
        let changed = data != *self.data(m);
        let member = &mut self.all[m];
        if changed {
            member.log.push(Entry::new(member.term, Shared::new(data)));
        }
        (answer, Sent { member: m, term: member.term, length: member.log.len() })
    }

    /// Returns true if a majority has acknowledged the command to the primary.
    pub fn is_acknowledged(&self, sent: Sent) -> bool {
        let primary = &self.all[sent.member];
        let has = |other: &Member| other.log.len() >= sent.length && other.log[sent.length - 1].term == sent.term;
        let others = self.all.iter().enumerate().filter(|(m, _)| *m != sent.member);
        primary.primary && primary.term == sent.term && others.into_iter().any(|(_, other)| has(other))
    }

    /// Returns true if the sender may stop waiting, because a newer primary makes this one step
    /// down.
    pub fn is_outdated(&self, sent: Sent) -> bool {
        self.newest_term() > sent.term
    }

    /// Members that vote for `m` as primary, because their log is not newer than its own.
    fn voters(&self, m: usize) -> impl Iterator<Item = usize> {
        let rank = |m: usize| (self.all[m].log.last().map(|entry| entry.term), self.all[m].log.len());
        (0..MEMBERS).filter(move |v| *v != m && rank(*v) <= rank(m))
    }

    /// Members that may become primary, each with the member whose vote it gets.
    pub fn candidates(&self) -> Vec<(usize, usize)> {
        let follows = |m: &usize| !(self.all[*m].primary && self.all[*m].term == self.newest_term());
        let candidates = (0..ELECTABLE).filter(follows);
        candidates.flat_map(|m| self.voters(m).map(move |v| (m, v))).collect()
    }

    /// `m` becomes primary with the vote of `v`, in a new term, which it begins with an entry.
    pub fn elect(&mut self, m: usize, v: usize) {
        let term = self.newest_term() + 1;
        (self.all[v].term, self.all[v].primary) = (term, false);
        let entry = Entry { term, ..self.all[m].log[self.all[m].log.len() - 1].clone() };
        let member = &mut self.all[m];
        (member.term, member.primary) = (term, true);
        member.log.push(entry);
    }

    /// The primary that a member may follow, unless the member has all its entries.
    pub fn to_follow(&self, m: usize) -> Option<usize> {
        let may = |p: &usize| {
            let (primary, member) = (&self.all[*p], &self.all[m]);
            *p != m && primary.primary && primary.term >= member.term && !(same(primary, member))
        };
        (0..ELECTABLE).filter(may).max_by_key(|p| self.all[*p].term)
    }

    /// Member `m` takes over the log of primary `p` and loses its own other entries. Entries that
    /// two of the three members have then are there for good.
    pub fn follow(&mut self, m: usize, p: usize) {
        let Member { log, term, .. } = self.all[p].clone();
        self.durable = log[log.len() - 1].clone();
        self.all[m] = Member { log, term, primary: false };
    }

    /// Cuts off the entries that all members have, except for the last. Returns how many it has cut
    /// off.
    pub fn trim(&mut self) -> usize {
        let shared = |place: usize| {
            let mut terms = self.all.iter().map(|member| member.log.get(place).map(|entry| entry.term));
            let first = terms.next().flatten();
            first.is_some() && terms.all(|term| term == first)
        };
        let cut = (1..).take_while(|place| shared(*place)).count();
        for member in &mut self.all {
            member.log.drain(..cut);
        }
        cut
    }
}

fn same(one: &Member, other: &Member) -> bool {
    let last = |member: &Member| (member.log.len(), member.log.last().map(|entry| entry.term));
    last(one) == last(other) && one.term == other.term
}
