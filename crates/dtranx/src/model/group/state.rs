//! [`State`] of a group, of the server beside it and of the clients, and the steps that are
//! possible in it.

use std::collections::BTreeMap;

use super::{
    member::{MEMBERS, Member},
    plan::{Budget, Flaw, Plan},
};
use crate::core::{CommitAnswer, Node, ServerId, TranxId, Write};
use crate::model::{
    server::Server,
    state::{Client, Post, Reader},
};

/// Index of the server beside the group; smaller ones are members.
pub(super) const OTHER: usize = MEMBERS;

/// State of everything, with what is left of the budgets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) members: Vec<Member>,
    pub(super) other: Server,
    /// Messages under way between the group and the other server, by their digests.
    pub(super) network: BTreeMap<u64, Post>,
    pub(super) clients: Vec<Client>,
    pub(super) readers: Vec<Reader>,
    /// Transactions that were applied anywhere, with the index of each in the plan.
    pub(super) applied: BTreeMap<TranxId, usize>,
    /// Terms of the entries that a member has acted on as committed.
    pub(super) acted: Vec<u64>,
    /// Description of a fault in a step.
    pub(super) broken: Option<String>,
    pub(super) budget: Budget,
}

/// A step. Clients are given by their index, and so are members; [`OTHER`] is the server beside
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Read {
        client: usize,
        at: usize,
    },
    Commit {
        client: usize,
        at: usize,
    },
    AskSnapshot {
        reader: usize,
        at: usize,
    },
    ReadSnapshot {
        reader: usize,
        at: usize,
    },
    Deliver(Post, usize),
    /// The other server's log is durable.
    Flush,
    /// A member's log is durable.
    Sync(usize),
    /// A follower has the leader's log, durably, and the leader counts it.
    Replicate {
        from: usize,
        to: usize,
    },
    /// A batch that a leader sent earlier arrives: its first `entries`.
    Late {
        from: usize,
        to: usize,
        entries: usize,
    },
    /// A follower gets a piece of the leader's items.
    Piece {
        from: usize,
        to: usize,
    },
    /// A follower tells a leader what its log ends with, before a batch reaches it.
    Report {
        from: usize,
        to: usize,
    },
    /// Two members elect one of them.
    Elect {
        candidate: usize,
        voter: usize,
    },
    /// A leader begins a round, and another member confirms its term.
    Round {
        at: usize,
        by: usize,
    },
    /// The answers of the round arrive.
    Confirm(usize),
    /// A client asks a leader what became of a commit that has no answer.
    AskAgain {
        client: usize,
        at: usize,
    },
    /// A member's disk syncs nothing any more.
    Hang(usize),
    /// A leader whose disk syncs nothing steps down.
    StepDown(usize),
    Tick(usize),
    Crash {
        at: usize,
        kept: usize,
        persists: bool,
    },
    Restart(usize),
    LoseDisk(usize),
    /// A member's log loses what was synced, from an entry on.
    Damage {
        at: usize,
        from: usize,
    },
    /// A store that has caught up gets a vote.
    Admit(usize),
    /// A leader appends the low-water marks.
    Mark(usize),
    /// A member removes what marks cover.
    Collect(usize),
}

impl State {
    /// First state: the first member leads, its life has begun, and the first transactions are
    /// over.
    pub(super) fn new(plan: &Plan) -> Self {
        let mut state = Self {
            members: vec![Member::new(plan); MEMBERS],
            other: Server::new(ServerId(2), &plan.base),
            network: BTreeMap::new(),
            clients: vec![Client::default(); plan.base.txs.len()],
            readers: vec![Reader::default(); plan.base.snaps.len()],
            applied: BTreeMap::new(),
            acted: vec![],
            broken: None,
            budget: Budget { elections: 1, ..plan.budget },
        };
        let (mut out, mut applied) = (vec![], vec![]);
        state.other.start(&plan.base, &mut out, &mut applied);
        state.take(plan, &Action::Flush);
        state.take(plan, &Action::Elect { candidate: 0, voter: 1 });
        state.come_to_silence(plan);
        for client in 0..plan.base.before {
            let at = state.first_node(plan.base.txs[client].coordinator);
            for _ in &plan.base.txs[client].reads {
                let at = state.first_node(plan.base.partition().server_of(&plan.base.txs[client].reads[0]));
                state.take(plan, &Action::Read { client, at });
            }
            state.take(plan, &Action::Commit { client, at });
            state.come_to_silence(plan);
        }
        for reader in 0..plan.base.snaps_before {
            let at = state.first_node(plan.base.snaps[reader].maker);
            state.take(plan, &Action::AskSnapshot { reader, at });
            state.come_to_silence(plan);
        }
        // A member that is cut off has heard of the leader.
        let term = state.term();
        state.members.iter_mut().for_each(|member| member.term = term);
        state.budget = plan.budget;
        for (at, member) in state.members.iter_mut().enumerate() {
            member.is_hung = plan.hung == Some(at);
        }
        (0..plan.ahead).for_each(|_| state.members[0].append_empty());
        state
    }

    fn come_to_silence(&mut self, plan: &Plan) {
        while let Some(action) = self.busy(plan).into_iter().next() {
            self.take(plan, &action);
        }
    }

    fn first_node(&self, server: ServerId) -> usize {
        self.nodes(server).next().unwrap_or(OTHER)
    }

    /// Places where the node of a server runs: several of the group's members may believe to lead.
    pub(super) fn nodes(&self, server: ServerId) -> impl Iterator<Item = usize> {
        let all = if server == self.other.id { OTHER..OTHER + 1 } else { 0..MEMBERS };
        all.filter(move |at| self.node(*at).is_some())
    }

    pub(super) fn node(&self, at: usize) -> Option<&Node> {
        self.members.get(at).map_or(&self.other, |member| &member.server).node.as_ref()
    }

    pub(super) fn server_mut(&mut self, at: usize) -> &mut Server {
        self.members.get_mut(at).map_or(&mut self.other, |member| &mut member.server)
    }

    /// Steps that go on by themselves.
    pub(super) fn busy(&self, plan: &Plan) -> Vec<Action> {
        let mut actions = Vec::new();
        for post in self.network.values() {
            actions.extend(self.nodes(post.to).map(|at| Action::Deliver(post.clone(), at)));
        }
        if self.other.durable < self.other.log.len() {
            actions.push(Action::Flush);
        }
        let synced = |member: &Member| member.server.durable == member.len();
        for (at, member) in self.members.iter().enumerate().filter(|(_, member)| member.is_up) {
            match &member.lead {
                _ if !member.is_hung && !synced(member) => actions.push(Action::Sync(at)),
                Some(lead) if member.is_hung => {
                    // A former leader that cannot sync a batch steps down, too.
                    let is_slow = !synced(member) && !plan.has(Flaw::HungLeads);
                    actions.extend((is_slow || lead.term < self.term()).then_some(Action::StepDown(at)));
                }
                _ => {}
            }
        }
        actions.extend(self.batches(plan));
        for (at, member) in self.members.iter().enumerate() {
            let Some(lead) = &member.lead else { continue };
            let is_early = plan.has(Flaw::ConfirmedBefore) && self.node(at).is_some() && !self.is_believed(at);
            if !lead.round.is_empty() {
                actions.push(Action::Confirm(at));
            } else if is_early || !lead.held.is_empty() {
                actions.extend(self.confirming(plan, at).into_iter().map(|by| Action::Round { at, by }));
            }
        }
        actions
    }

    /// Returns true if a round of this leader has ended, and is believed for good.
    fn is_believed(&self, at: usize) -> bool {
        self.members[at].lead.as_ref().is_some_and(|lead| lead.was_confirmed)
    }

    /// Timers that may go off.
    pub(super) fn ticks(&self) -> Vec<Action> {
        let is_due = |at: &usize| self.node(*at).is_some_and(|node| node.next_deadline_ms().is_some());
        (0..=OTHER).filter(is_due).map(Action::Tick).collect()
    }

    /// Faults, elections and maintenance that the budgets allow.
    pub(super) fn faults(&self, plan: &Plan) -> Vec<Action> {
        let (mut actions, budget) = (Vec::new(), &self.budget);
        let is_early = plan.elects_after.is_some_and(|client| self.clients[client].sent_as.is_none());
        if budget.elections > 0 && !is_early {
            actions.extend(self.elections(plan));
        }
        if budget.early_ticks > 0 {
            actions.extend(self.ticks());
        }
        for (at, member) in self.members.iter().enumerate() {
            if !member.is_up {
                actions.push(Action::Restart(at));
                continue;
            }
            if budget.crashes > 0 && plan.crash_only.is_none_or(|only| only == at) {
                let all = 0..=member.len() - member.server.durable;
                let persists = [false, true].into_iter().take(1 + usize::from(member.server.has_unpersisted()));
                let crash = |kept| persists.clone().map(move |persists| Action::Crash { at, kept, persists });
                actions.extend(all.flat_map(crash));
            }
            if budget.lost_disks > 0 && member.has_vote {
                actions.push(Action::LoseDisk(at));
            }
            if budget.damages > 0 && member.has_vote {
                actions.extend((0..member.server.durable).map(|from| Action::Damage { at, from }));
            }
            if self.may_be_admitted(plan, at) {
                actions.push(Action::Admit(at));
            }
            if budget.marks > 0 && member.is_serving() {
                actions.push(Action::Mark(at));
            }
            if budget.collections > 0 && self.may_collect(plan, at) {
                actions.push(Action::Collect(at));
            }
            let may_hang = !member.is_hung && plan.crash_only.is_none_or(|only| only == at);
            if budget.hangs > 0 && may_hang {
                actions.push(Action::Hang(at));
            }
            if budget.reports > 0 {
                let leaders = (0..MEMBERS).filter(|to| self.reported(plan, at, *to).is_some());
                actions.extend(leaders.map(|to| Action::Report { from: at, to }));
            }
            if budget.late > 0 {
                actions.extend(self.late_batches(plan, at));
            }
        }
        actions
    }

    /// Batches that a leader sent earlier, and that may arrive now.
    fn late_batches(&self, plan: &Plan, at: usize) -> Vec<Action> {
        let member = &self.members[at];
        let Some(lead) = &member.lead else { return Vec::new() };
        let others = (0..MEMBERS).filter(|to| self.would_take(plan, at, *to));
        let last = |to| member.len() - usize::from(self.may_reach(plan, at, to));
        let late = |to| (lead.first + 1..=last(to)).map(move |entries| Action::Late { from: at, to, entries });
        others.flat_map(late).collect()
    }

    /// Returns true if a transaction is refused and applied nevertheless.
    pub(super) fn is_contradicted(&self) -> bool {
        let refused = |at: &usize| matches!(self.clients[*at].answer, Some(CommitAnswer::Refused(_)));
        self.applied.values().any(refused)
    }
}

/// Client of a transaction with these writes: that is what it puts.
pub(super) fn client_of(writes: &[Write]) -> Option<usize> {
    let first = writes.iter().find_map(|write| write.value.as_ref())?;
    Some(usize::from(first.as_bytes()[0]))
}
