//! What passes between the members of a group: votes, batches and rounds.

use super::{
    member::{Lead, MAJORITY, MEMBERS, Member},
    plan::{Flaw, Plan},
    state::{Action, State},
};

impl State {
    /// Elections that Raft allows now.
    pub(super) fn elections(&self, plan: &Plan) -> Vec<Action> {
        let may_stand = |at: &usize| plan.candidates.is_empty() || plan.candidates.contains(at);
        let pairs = (0..MEMBERS).filter(may_stand).flat_map(|candidate| {
            let may_vote = move |voter: &usize| *voter != candidate && plan.voter.is_none_or(|only| *voter == only);
            (0..MEMBERS).filter(may_vote).map(move |voter| (candidate, voter))
        });
        let may_win = |(candidate, voter): &(usize, usize)| {
            let (one, other) = (&self.members[*candidate], &self.members[*voter]);
            let leads = one.lead.as_ref().is_some_and(|lead| lead.term >= self.term());
            let may_vote = |member: &Member| member.is_up && member.has_vote && !member.is_hung;
            let count = [one, other].into_iter().all(may_vote);
            count && !leads && other.is_at_most(one)
        };
        pairs.filter(may_win).map(|(candidate, voter)| Action::Elect { candidate, voter }).collect()
    }

    /// The latest term that any member knows of.
    pub(super) fn term(&self) -> u64 {
        self.members.iter().map(|member| member.term).max().unwrap_or(0)
    }

    pub(super) fn elect(&mut self, plan: &Plan, candidate: usize, voter: usize) {
        let term = self.members[candidate].term.max(self.members[voter].term) + 1;
        for at in [candidate, voter] {
            let member = &mut self.members[at];
            member.term = term;
            if member.lead.is_some() {
                member.step_down(plan);
            }
        }
        let member = &mut self.members[candidate];
        member.lead = Some(Lead::new(term, member.len()));
        member.append_empty();
        if plan.has(Flaw::BeginsBeforeFirstEntry) {
            self.begin(plan, candidate);
        }
    }

    /// Returns true if a member would take a batch of another one.
    pub(super) fn would_take(&self, plan: &Plan, from: usize, to: usize) -> bool {
        let (leader, follower) = (&self.members[from], &self.members[to]);
        let Some(lead) = &leader.lead else { return false };
        let is_old = follower.term > lead.term;
        let accepts = !is_old || plan.has(Flaw::OldTermAccepted) && follower.lead.is_none();
        let is_full = plan.room.is_some_and(|room| follower.held() >= room);
        let is_silent = follower.is_hung || is_full && plan.has(Flaw::FullAcknowledgesNothing);
        from != to && leader.is_up && follower.is_up && accepts && !is_silent
    }

    /// Returns true if a member would take a batch of another one, and is not cut off from it.
    pub(super) fn may_reach(&self, plan: &Plan, from: usize, to: usize) -> bool {
        let is_first = self.members[from].lead.as_ref().is_some_and(|lead| lead.term == 1);
        let is_back = plan.rejoins && self.members[from].server.removed > 0;
        let is_cut_off = is_first && !is_back && plan.cut_off == Some(to) || !is_first && plan.is_deaf && to == 0;
        self.would_take(plan, from, to) && !is_cut_off
    }

    /// Batches that would change something.
    pub(super) fn batches(&self, plan: &Plan) -> Vec<Action> {
        let mut actions = Vec::new();
        for from in 0..MEMBERS {
            for to in (0..MEMBERS).filter(|to| self.may_reach(plan, from, *to)) {
                let (leader, follower) = (&self.members[from], &self.members[to]);
                let Some(lead) = &leader.lead else { continue };
                let has_all = follower.tags == leader.tags && lead.acknowledged[to] == leader.len();
                let knows_commit = plan.budget.collections == 0 || follower.committed >= leader.committed;
                let needs_items = follower.len() < leader.server.removed && !plan.has(Flaw::RemovedWithoutItems);
                if needs_items {
                    actions.push(Action::Piece { from, to });
                } else if !has_all || !knows_commit || follower.term < lead.term {
                    actions.push(Action::Replicate { from, to });
                }
            }
        }
        actions
    }

    /// A follower takes a batch, has it synced, and is counted.
    pub(super) fn deliver(&mut self, plan: &Plan, from: usize, to: usize, entries: usize) {
        let leader = self.members[from].clone();
        let Some(lead) = &leader.lead else { return };
        self.hear_of(plan, to, lead.term);
        let follower = &mut self.members[to];
        let needs_items = follower.len() < leader.server.removed;
        let same = follower.common(&leader.tags[..entries]);
        let conflicts = same < entries && same < follower.len();
        let cuts = conflicts || plan.has(Flaw::CutsWithoutConflict);
        if cuts && same < follower.committed {
            self.fail(plan, format!("member {to} voids entry {same}, which is committed"));
        }
        let follower = &mut self.members[to];
        if cuts || entries > follower.len() {
            follower.tags = leader.tags[..entries].to_vec();
            follower.server.log = leader.server.log[..entries].to_vec();
        }
        if needs_items && plan.has(Flaw::RemovedWithoutItems) {
            follower.begin_at(&leader.server);
        }
        follower.server.durable = follower.len();
        follower.committed = follower.committed.max(leader.committed.min(entries)).min(follower.len());
        if let Some(lead) = &mut self.members[from].lead {
            lead.acknowledged[to] = lead.acknowledged[to].max(entries);
        }
        self.advance(plan, from);
    }

    /// A member hears of a leader with this term.
    pub(super) fn hear_of(&mut self, plan: &Plan, at: usize, term: u64) {
        let member = &mut self.members[at];
        member.term = member.term.max(term);
        if member.lead.is_some() {
            member.step_down(plan);
        }
    }

    /// Number of entries that a leader may count for a follower which says what its log ends with,
    /// if those are more than before (G17).
    pub(super) fn reported(&self, plan: &Plan, from: usize, to: usize) -> Option<usize> {
        let (follower, leader) = (&self.members[from], &self.members[to]);
        let lead = leader.lead.as_ref().filter(|_| self.would_take(plan, to, from))?;
        let last = follower.server.durable;
        let term = |member: &Member| member.tags[..last.min(member.len())].last().map(|tag| tag.term);
        let through = if plan.has(Flaw::ConflictCounted) {
            last.min(leader.server.durable)
        } else if last <= leader.len() && term(follower) == term(leader) {
            last
        } else {
            return None;
        };
        (through > lead.acknowledged[from]).then_some(through)
    }

    /// A leader hears what a follower's log ends with.
    pub(super) fn report_log(&mut self, plan: &Plan, from: usize, to: usize) {
        self.budget.reports -= 1;
        let (Some(through), Some(lead)) = (self.reported(plan, from, to), &mut self.members[to].lead) else { return };
        lead.acknowledged[from] = through;
        let term = lead.term;
        self.hear_of(plan, from, term);
        self.advance(plan, to);
    }

    /// Counts what a leader's log and the acknowledgements say, and lets its node go on.
    pub(super) fn advance(&mut self, plan: &Plan, at: usize) {
        let votes: Vec<bool> = self.members.iter().map(|member| member.has_vote).collect();
        let member = &mut self.members[at];
        let durable = member.server.durable;
        let Some(lead) = &mut member.lead else { return };
        lead.acknowledged[at] = if plan.has(Flaw::CountsUnsynced) { member.tags.len() } else { durable };
        let has = |entries: usize| {
            let counted = lead.acknowledged.iter().zip(&votes).filter(|(acked, votes)| **votes && **acked >= entries);
            counted.count() >= MAJORITY && member.tags[entries - 1].term == lead.term
        };
        let committed = (member.committed + 1..=member.tags.len()).rev().find(|entries| has(*entries));
        let first = lead.first;
        member.committed = committed.unwrap_or(member.committed);
        let through = if plan.has(Flaw::OwnSync) { durable } else { member.committed.min(durable) };
        if through <= first {
            return;
        }
        if !member.is_serving() {
            return self.begin(plan, at);
        }
        // The node's first entry comes behind the first of its term.
        let others = member.empty(first + 1, through);
        self.act(plan, at, through);
        self.report(plan, at, through, others);
    }

    /// A life begins: the node recovers from the log, up to the first entry of its term.
    pub(super) fn begin(&mut self, plan: &Plan, at: usize) {
        let through = self.members[at].len();
        if through < self.acted.len() && self.members[at].term == self.term() {
            self.fail(plan, format!("member {at} leads without entries that were acted on"));
        }
        self.act(plan, at, through);
        let (mut out, mut applied) = (vec![], vec![]);
        let server = &mut self.members[at].server;
        let kept = plan.has(Flaw::HistoryGoesOn).then(|| server.history.clone());
        server.start(&plan.base, &mut out, &mut applied);
        server.history = kept.unwrap_or(server.history.clone());
        self.hear(plan, at, out, applied);
    }

    /// Notes that a member acts on the first entries of its log as committed.
    pub(super) fn act(&mut self, plan: &Plan, at: usize, through: usize) {
        let terms: Vec<u64> = self.members[at].tags[..through].iter().map(|tag| tag.term).collect();
        for (index, term) in terms.into_iter().enumerate() {
            match self.acted.get(index) {
                Some(acted) if *acted != term => {
                    self.fail(plan, format!("entry {index} is acted on in terms {acted} and {term}"));
                }
                Some(_) => {}
                None => self.acted.push(term),
            }
        }
    }

    /// Notes that a step has gone wrong. A flaw has to show in what clients and items have.
    fn fail(&mut self, plan: &Plan, what: String) {
        if plan.flaw.is_none() {
            self.broken = Some(what);
        }
    }

    /// A follower applies the first entries of its log.
    pub(super) fn apply(&mut self, plan: &Plan, at: usize, through: usize) {
        let mut applied = vec![];
        let member = &mut self.members[at];
        let through = through.max(member.server.removed).min(member.len());
        drop(member.server.replay(&plan.base, through, &mut applied));
        if !plan.has(Flaw::AppliesAll) {
            self.act(plan, at, through);
            self.note(applied);
        }
    }

    /// Members each of which would confirm the term of a leader, and is a majority together with
    /// it.
    pub(super) fn confirming(&self, plan: &Plan, at: usize) -> Vec<usize> {
        let Some(lead) = &self.members[at].lead else { return vec![] };
        let any = plan.has(Flaw::EmptyDiskConfirms);
        // A term is synced before it is confirmed.
        let may = |member: &Member| member.term == lead.term || member.term < lead.term && !member.is_hung;
        let counts = |member: &Member| member.is_up && (member.has_vote || any) && may(member);
        let is_counted = counts(&self.members[at]);
        (0..MEMBERS).filter(|by| is_counted && *by != at && counts(&self.members[*by])).collect()
    }

    /// A round begins, for what waits now, and another member confirms the term.
    pub(super) fn round(&mut self, plan: &Plan, at: usize, by: usize) {
        let Some(lead) = &mut self.members[at].lead else { return };
        lead.was_confirmed = plan.has(Flaw::ConfirmedBefore);
        lead.round = std::mem::take(&mut lead.held);
        let term = lead.term;
        if self.members[by].term < term {
            self.hear_of(plan, by, term);
        }
    }

    /// The answers of a round arrive: what waited for it leaves.
    pub(super) fn confirm(&mut self, plan: &Plan, at: usize) {
        let Some(lead) = &mut self.members[at].lead else { return };
        let mut leaving = std::mem::take(&mut lead.round);
        if plan.has(Flaw::LatecomersLeave) {
            leaving.append(&mut lead.held);
        }
        for command in leaving {
            self.spread(at, command);
        }
    }

    /// Returns true if a store without a vote has all that the group has, and a majority of the
    /// others too.
    pub(super) fn may_be_admitted(&self, plan: &Plan, at: usize) -> bool {
        let store = &self.members[at];
        if plan.has(Flaw::AdmittedBehind) {
            return !store.has_vote;
        }
        let leads = |member: &&Member| member.is_serving() && member.term == self.term();
        let Some(leader) = self.members.iter().find(leads) else { return false };
        let has_all = |member: &Member| member.tags == leader.tags && member.server.durable == member.len();
        let is_whole = self.members.iter().all(|member| member.is_up && has_all(member) && member.term == leader.term);
        !store.has_vote && is_whole && leader.committed == leader.len()
    }
}
