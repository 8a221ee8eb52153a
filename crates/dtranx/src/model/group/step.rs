//! What one step does to the [`State`] of a group, of the server beside it and of the clients.

use super::{
    member::Member,
    plan::{Flaw, Plan},
    state::{Action, OTHER, State, client_of},
};
use crate::core::{Command, Input, SnapshotAnswer, TranxId, Write};
use crate::model::state::{Client, Post, Reader};

impl State {
    /// Takes one step; a fault is taken from its budget.
    pub(super) fn take(&mut self, plan: &Plan, action: &Action) {
        self.spend(action);
        match action.clone() {
            Action::Read { client, at } => self.read(plan, client, at),
            Action::Commit { client, at } => self.commit(plan, client, at),
            Action::AskSnapshot { reader, at } => self.ask_snapshot(plan, reader, at),
            Action::ReadSnapshot { reader, at } => self.read_snapshot(plan, reader, at),
            Action::Deliver(post, at) => {
                self.network.remove(&post.digest());
                self.on(plan, at, Input::Receive { from: post.from, message: post.message });
            }
            Action::Flush => {
                self.other.durable = self.other.log.len();
                self.report(plan, OTHER, self.other.durable, 0);
            }
            Action::Sync(at) => {
                let member = &mut self.members[at];
                member.server.durable = member.len();
                self.advance(plan, at);
            }
            Action::Replicate { from, to } => self.deliver(plan, from, to, self.members[from].len()),
            Action::Late { from, to, entries } => self.deliver(plan, from, to, entries),
            Action::Elect { candidate, voter } => self.elect(plan, candidate, voter),
            Action::Piece { from, to } => self.piece(plan, from, to),
            Action::Report { from, to } => self.report_log(plan, from, to),
            Action::Round { at, by } => self.round(plan, at, by),
            Action::Confirm(at) => self.confirm(plan, at),
            Action::AskAgain { client, at } => self.ask_again(client, at),
            Action::Hang(at) => self.members[at].is_hung = true,
            Action::StepDown(at) => self.members[at].step_down(plan),
            Action::Tick(at) => self.tick(plan, at),
            Action::Crash { at, kept, persists } => self.members[at].crash(kept, persists),
            Action::Restart(at) => self.restart(plan, at),
            Action::LoseDisk(at) => {
                self.members[at] = Member { has_vote: plan.has(Flaw::EmptyDiskVotes), ..Member::new(plan) };
            }
            Action::Damage { at, from } => self.damage(plan, at, from),
            Action::Admit(at) => self.members[at].has_vote = true,
            Action::Mark(at) => self.mark(plan, at),
            Action::Collect(at) => self.collect(plan, at),
        }
    }

    /// Takes a fault from its budget. Steps that are one only sometimes, or that others take as
    /// well, do so themselves.
    fn spend(&mut self, action: &Action) {
        let budget = &mut self.budget;
        let left = match action {
            Action::Late { .. } => &mut budget.late,
            Action::Elect { .. } => &mut budget.elections,
            Action::Hang(_) => &mut budget.hangs,
            Action::Crash { .. } => &mut budget.crashes,
            Action::LoseDisk(_) => &mut budget.lost_disks,
            Action::Damage { .. } => &mut budget.damages,
            Action::Collect(_) => &mut budget.collections,
            _ => return,
        };
        *left -= 1;
    }

    fn tick(&mut self, plan: &Plan, at: usize) {
        let is_busy = !self.busy(plan).is_empty();
        self.budget.early_ticks = self.budget.early_ticks.saturating_sub(u8::from(is_busy));
        if !is_busy && plan.base.holds {
            self.server_mut(at).wait();
        }
        self.on(plan, at, Input::Tick);
    }

    fn restart(&mut self, plan: &Plan, at: usize) {
        self.members[at].is_up = true;
        let member = &self.members[at];
        let through = if plan.has(Flaw::AppliesAll) { member.len() } else { member.committed };
        self.apply(plan, at, through);
    }

    /// A member whose log has lost what was synced comes back with an empty one, and without a
    /// vote.
    fn damage(&mut self, plan: &Plan, at: usize, from: usize) {
        if plan.has(Flaw::DamageTakenForTorn) {
            let member = &mut self.members[at];
            member.crash(0, true);
            member.server.durable = from;
            member.crash(0, true);
        } else {
            self.members[at] = Member { has_vote: false, ..Member::new(plan) };
        }
    }

    /// Gives a node an event.
    pub(super) fn on(&mut self, plan: &Plan, at: usize, input: Input) {
        let (mut out, mut applied) = (vec![], vec![]);
        self.server_mut(at).on(input, &mut out, &mut applied);
        self.hear(plan, at, out, applied);
    }

    /// Tells a node that the first entries of its log are durable, of which `others` came since its
    /// start and are not its own.
    pub(super) fn report(&mut self, plan: &Plan, at: usize, through: usize, others: usize) {
        let (mut out, mut applied) = (vec![], vec![]);
        self.server_mut(at).report(through, others, &mut out, &mut applied);
        self.hear(plan, at, out, applied);
    }

    /// Carries out what a node wants sent, or holds it back, and notes what it has applied.
    pub(super) fn hear(&mut self, plan: &Plan, at: usize, out: Vec<Command>, applied: Vec<(TranxId, Vec<Write>)>) {
        if let Some(member) = self.members.get_mut(at) {
            member.tag();
        }
        self.note(applied);
        for command in out {
            let is_held = self.members.get(at).is_some_and(|member| member.is_held(plan, &command));
            match self.members.get_mut(at).and_then(|member| member.lead.as_mut()).filter(|_| is_held) {
                Some(lead) => lead.held.push(command),
                None => self.spread(at, command),
            }
        }
    }

    /// Lets something that a node says reach the network, or a client.
    pub(super) fn spread(&mut self, at: usize, command: Command) {
        let from = self.server_mut(at).id;
        match command {
            Command::Send { to, message } => {
                let post = Post { from, to, message };
                self.network.insert(post.digest(), post);
            }
            Command::Reply { client, answer, .. } => {
                let asked = |other: &&mut Client| other.sent_as == Some(client) && other.answer.is_none();
                if let Some(client) = self.clients.iter_mut().find(asked) {
                    client.answer = Some(answer);
                }
            }
            Command::ReplySnapshot { client, answer, .. } => {
                let unanswered = |reader: &&mut Reader| reader.snapshot.is_none() && !reader.is_refused;
                let asked = |other: &&mut Reader| other.asked_as == Some(client) && unanswered(other);
                match (self.readers.iter_mut().find(asked), answer) {
                    (Some(reader), SnapshotAnswer::Made(epoch)) => reader.snapshot = Some(epoch),
                    (Some(reader), SnapshotAnswer::Refused(_)) => reader.is_refused = true,
                    (None, _) => {}
                }
            }
            _ => {}
        }
    }

    pub(super) fn note(&mut self, applied: Vec<(TranxId, Vec<Write>)>) {
        for (tranx, writes) in applied {
            self.applied.extend(client_of(&writes).map(|client| (tranx, client)));
        }
    }
}
