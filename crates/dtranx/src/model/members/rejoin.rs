//! A store is lost, and an empty one takes its place (decision 0081). The others note it one after
//! the other, and start their machines again; the new store's machine asks them, follows, and gets
//! a vote. Each of these steps comes at any time.

use super::state::{Action, Post, State, next};
use crate::core::group::{
    Config, Event, Flaw, Group, MemberId, Message, Rejoin, Timer,
    disk::{Disk, renamed_in},
};

impl State {
    /// Steps of members while one is rejoining.
    pub(super) fn rejoining(&self) -> impl Iterator<Item = Action> {
        let notes = self.all().into_iter().filter(|at| !self.has_noted(*at));
        let is_under_way = |at: usize, other: usize| {
            let is_question = |message: &Message| matches!(message, Message::Rejoin | Message::RejoinAnswer { .. });
            let is_between = |post: &Post| (post.from, post.to) == (at, other) || (post.to, post.from) == (at, other);
            self.network.values().any(|post| is_between(post) && is_question(&post.message))
        };
        let asks = self.all().into_iter().filter(move |at| {
            let unheard = |other: &usize| {
                let waits = self.members[*at].group.waits_for().contains(&self.members[*other].store());
                waits && self.has_noted(*other) && self.may_count(*at, *other) && !is_under_way(*at, *other)
            };
            self.all().iter().any(unheard)
        });
        let goes_on = self.all().into_iter().filter(|at| self.members[*at].next.is_some());
        let notes = notes.map(Action::Note);
        notes.chain(asks.map(Action::Ask)).chain(goes_on.map(Action::GoOn))
    }

    pub(super) fn go_on_rejoining(&mut self, action: &Action) {
        match action {
            Action::Note(at) => self.note(*at),
            Action::Ask(at) => self.ask(*at),
            Action::GoOn(at) => self.go_on(*at),
            _ => {}
        }
    }

    /// Returns true if a member refuses the lost store, and knows the one in its place.
    pub(super) fn has_noted(&self, at: usize) -> bool {
        let before = &self.members[at].group.config().before.configuration;
        self.lost.as_ref().is_none_or(|(lost, _)| !before.contains(*lost))
    }

    /// Returns true if an answer can count: no change is under way where it comes from, as far as
    /// is known there (0088, C11).
    fn may_count(&self, at: usize, from: usize) -> bool {
        let (asks, answers) = (self.members[at].group.config(), &self.members[from].group);
        let in_force = answers.in_force();
        let is_over = !in_force.configuration.is_joint() && answers.settled().at == in_force.at;
        is_over && in_force.at >= asks.before.at || asks.flaw == Some(Flaw::RejoinsDuringChange)
    }

    /// A message as its receiver reads it: configurations name places, and each member's notes say
    /// which store is in one (0088, C10).
    pub(super) fn by_notes(&self, to: usize, message: Message) -> Message {
        use noraft::Message::AppendEntriesCall as Call;
        let Some(lost) = self.lost.as_ref().map(|(lost, _)| *lost) else { return message };
        let (old, new) = if self.has_noted(to) { (lost, next(lost)) } else { (next(lost), lost) };
        match message {
            Message::Raft(Call { from, term, commit_index, entries }) => {
                Message::Raft(Call { from, term, commit_index, entries: renamed_in(&entries, old, new) })
            }
            message => message,
        }
    }

    /// A rejoining member asks. It takes the latest configuration of those that would answer for
    /// its own, because its log has none (0088, C11).
    pub(super) fn ask(&mut self, at: usize) {
        let others = self.members.iter().enumerate().filter(|(other, member)| {
            *other != at && self.has_noted(*other) && member.group.config().rejoins.is_none()
        });
        let config = self.members[at].group.config().clone();
        let is_early = config.flaw == Some(Flaw::RejoinsDuringChange);
        let known = |group: &Group| if is_early { group.in_force().clone() } else { group.settled() };
        let latest = others.map(|(_, member)| known(&member.group)).max_by_key(|known| known.at);
        if let Some(before) = latest.filter(|latest| latest.at > config.before.at) {
            self.start_again(at, Config { before, ..config });
        }
        self.on(at, Event::Tick(Timer::Election));
    }

    pub(super) fn lose(&mut self, at: usize) {
        let old = self.members[at].group.config().clone();
        let me = next(old.me);
        let disk = std::mem::replace(&mut self.members[at].disk, Disk::new());
        self.lost = Some((old.me, disk));
        let config = Config { me, rejoins: Some(Rejoin::Asking), ..renamed(old.clone(), old.me) };
        self.start(at, config, 0);
    }

    pub(super) fn note(&mut self, at: usize) {
        let Some(lost) = self.lost.as_ref().map(|(lost, _)| *lost) else { return };
        let config = self.members[at].group.config().clone();
        self.members[at].disk.rename(lost, next(lost));
        self.start_again(at, renamed(config, lost));
    }

    /// A member notes a store that takes the place of one that is not lost.
    pub(super) fn note_ahead(&mut self, at: usize, other: usize) {
        let config = self.members[at].group.config().clone();
        self.start_again(at, renamed(config, self.members[other].store()));
    }

    pub(super) fn go_on(&mut self, at: usize) {
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
}

/// The same with the store that takes this one's place.
fn renamed(config: Config, lost: MemberId) -> Config {
    let mut before = config.before;
    before.configuration.rename(lost, next(lost));
    Config { before, ..config }
}
