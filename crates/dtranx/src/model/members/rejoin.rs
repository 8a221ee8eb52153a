//! A store is lost, and an empty one takes its place (decision 0081). The others note it one after
//! the other, and start their machines again; the new store's machine asks them, follows, and gets
//! a vote. Each of these steps comes at any time.

use std::collections::BTreeSet;

use super::state::{Action, MEMBERS, Member, Post, State};
use crate::core::group::{Config, Event, MemberId, Message, Position, Rejoin, Timer, disk::Disk};

/// Id of the store that takes this one's place.
fn next(lost: MemberId) -> MemberId {
    MemberId(lost.0 + MEMBERS as u64)
}

impl State {
    /// Steps of members while one is rejoining.
    pub(super) fn rejoining(&self) -> impl Iterator<Item = Action> {
        let pairs = (0..MEMBERS).flat_map(|at| (0..MEMBERS).map(move |other| (at, other)));
        let notes = pairs.filter(|(at, other)| at != other && self.lost.is_some() && !self.knows(*at, *other));
        let is_under_way = |at: usize, other: usize| {
            let is_question = |message: &Message| matches!(message, Message::Rejoin | Message::RejoinAnswer { .. });
            let is_between = |post: &Post| (post.from, post.to) == (at, other) || (post.to, post.from) == (at, other);
            self.network.values().any(|post| is_between(post) && is_question(&post.message))
        };
        let asks = (0..MEMBERS).filter(move |at| {
            let unheard = |other: &usize| {
                let waits = self.members[*at].group.waits_for().contains(&self.members[*other].store());
                waits && self.knows(*other, *at) && !is_under_way(*at, *other)
            };
            (0..MEMBERS).any(|other| unheard(&other))
        });
        let goes_on = (0..MEMBERS).filter(|at| self.members[*at].next.is_some());
        let notes = notes.map(|(at, other)| Action::Note(at, other));
        notes.chain(asks.map(Action::Ask)).chain(goes_on.map(Action::GoOn))
    }

    pub(super) fn go_on_rejoining(&mut self, action: &Action) {
        match action {
            Action::Note(at, other) => self.note(*at, *other),
            Action::Ask(at) => self.on(*at, Event::Tick(Timer::Election)),
            Action::GoOn(at) => self.go_on(*at),
            _ => {}
        }
    }

    /// Returns true if a member knows the store of another one.
    fn knows(&self, at: usize, other: usize) -> bool {
        self.members[at].group.config().members.contains(&self.members[other].store())
    }

    pub(super) fn lose(&mut self, at: usize) {
        let old = self.members[at].group.config().clone();
        let me = next(old.me);
        let others = old.members.iter().copied().filter(|other| *other != old.me);
        let members = others.chain([me]).collect();
        self.lost = Some(std::mem::replace(&mut self.members[at].disk, Disk::new()));
        self.start(at, Config { me, members, rejoins: Some(Rejoin::Asking), flaw: old.flaw }, 0);
    }

    fn note(&mut self, at: usize, other: usize) {
        let mut config = self.members[at].group.config().clone();
        let stores: BTreeSet<MemberId> = self.members.iter().map(Member::store).collect();
        config.members.retain(|member| stores.contains(member));
        config.members.insert(self.members[other].store());
        self.start_again(at, config);
    }

    /// A member notes a store that takes the place of one that is not lost.
    pub(super) fn note_ahead(&mut self, at: usize, other: usize) {
        let mut config = self.members[at].group.config().clone();
        let old = self.members[other].store();
        config.members.remove(&old);
        config.members.insert(next(old));
        self.start_again(at, config);
    }

    fn go_on(&mut self, at: usize) {
        let Some(rejoins) = self.members[at].next else { return };
        let config = self.members[at].group.config().clone();
        self.start_again(at, Config { rejoins, ..config });
    }

    /// Returns true if an empty store has taken a lost one's place, and has a vote.
    pub(super) fn has_replaced(&self) -> bool {
        self.lost.is_some() && !self.is_rejoining()
    }

    /// Returns true if a member has taken a lost one's place, and has no vote yet.
    pub(super) fn is_rejoining(&self) -> bool {
        self.members.iter().any(|member| member.group.config().rejoins.is_some())
    }

    /// The same with the lost store's disk: what was acknowledged by it counts still.
    pub(super) fn count_with_lost(&self, entry: Position) -> usize {
        self.count(entry) + self.lost.iter().filter(|disk| disk.has(entry)).count()
    }
}
