//! The members: their logs, elections, and what a majority has.
//!
//! An entry of a log is the data after it. Two entries with the same place and term are the same,
//! because a term has one primary. What all members have is cut off, but for the last entry.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use crate::{server::Data, shared::Shared};

/// How many members there are.
pub const MEMBERS: usize = 3;
/// The members that may become primary; the others only vote and follow.
pub const ELECTABLE: usize = 2;

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term of the primary that wrote it.
    pub term: u8,
    /// Content of the data after the entry.
    pub data: Shared<Data>,
    /// The hash of the data, which is asked for again and again.
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
    /// The newest term that it has heard of.
    pub term: u8,
    /// Does it take itself for the primary of that term?
    pub primary: bool,
}

/// A write, or a read that waits like one, that a primary has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    /// The member that executed it.
    pub member: usize,
    /// The term of that primary.
    pub term: u8,
    /// The length of its log afterwards.
    pub length: usize,
}

/// All members of the replica set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Members {
    /// The members, by index.
    pub all: Vec<Member>,
    /// Auxiliary: what a majority has, and always will have.
    pub durable: Entry,
}

impl Members {
    /// All follow member 0, which is primary in term 1.
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
    /// know how much the majority has until another member has followed it.
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

    /// Runs a command on a primary. What changes nothing leaves no entry, and waits for all that
    /// was there before.
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

    /// Has a majority acknowledged it to the primary?
    pub fn is_acknowledged(&self, sent: Sent) -> bool {
        let primary = &self.all[sent.member];
        let has = |other: &Member| other.log.len() >= sent.length && other.log[sent.length - 1].term == sent.term;
        let others = self.all.iter().enumerate().filter(|(m, _)| *m != sent.member);
        primary.primary && primary.term == sent.term && others.into_iter().any(|(_, other)| has(other))
    }

    /// May its sender give up waiting? There is a newer primary: this one steps down and says so.
    pub fn is_outdated(&self, sent: Sent) -> bool {
        self.newest_term() > sent.term
    }

    /// Members that vote for `m` as primary: their log is not better than its own.
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

    /// The primary that a member may follow, if it has not all that one has.
    pub fn to_follow(&self, m: usize) -> Option<usize> {
        let may = |p: &usize| {
            let (primary, member) = (&self.all[*p], &self.all[m]);
            *p != m && primary.primary && primary.term >= member.term && !(same(primary, member))
        };
        (0..ELECTABLE).filter(may).max_by_key(|p| self.all[*p].term)
    }

    /// `m` takes all that primary `p` has, and loses what it has more. What two of three have is
    /// there for good.
    pub fn follow(&mut self, m: usize, p: usize) {
        let Member { log, term, .. } = self.all[p].clone();
        self.durable = log[log.len() - 1].clone();
        self.all[m] = Member { log, term, primary: false };
    }

    /// Cuts off what all have. Answers how many entries.
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
