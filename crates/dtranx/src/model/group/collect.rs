//! Removal of entries: a leader logs its marks, and each member removes by itself what the marks in
//! its log cover (G11). Leaders and followers run the same garbage collection, the real one.

use super::{
    member::MEMBERS,
    plan::{Flaw, Plan},
    state::State,
};
use crate::core::{
    Command, GcRecord, Input, Record, SegmentId,
    gc::Gc,
    machine::{GcEvent, Outbox, Turn},
};

/// Part of the log that a member that does not lead may remove.
struct Removal {
    /// Number of entries that are applied before.
    applied: usize,
    /// Contents of its GC log then.
    record: GcRecord,
    /// Number of entries that are removed then.
    removed: usize,
}

impl State {
    /// A leader tells others what is complete, and logs its marks.
    pub(super) fn mark(&mut self, plan: &Plan, at: usize) {
        self.budget.marks = self.budget.marks.saturating_sub(1);
        self.on(plan, at, Input::CollectGarbage);
    }

    /// Returns true if there is something that a member may remove.
    pub(super) fn may_collect(&self, plan: &Plan, at: usize) -> bool {
        let member = &self.members[at];
        if member.is_serving() { !member.server.chores.is_empty() } else { self.removal(plan, at).is_some() }
    }

    /// A member removes what marks cover.
    pub(super) fn collect(&mut self, plan: &Plan, at: usize) {
        if self.members[at].is_serving() {
            return self.collect_as_leader(plan, at);
        }
        let Some(Removal { applied, record, removed }) = self.removal(plan, at) else { return };
        self.apply(plan, at, applied);
        self.members[at].remove(record, removed);
    }

    /// The node has begun the collection when its marks were committed.
    fn collect_as_leader(&mut self, plan: &Plan, at: usize) {
        let before = self.members[at].server.removed;
        while !self.members[at].server.chores.is_empty() {
            let (mut out, mut applied) = (vec![], vec![]);
            self.members[at].server.do_chore(&mut out, &mut applied);
            self.hear(plan, at, out, applied);
        }
        let member = &mut self.members[at];
        if member.server.removed == before {
            return;
        }
        member.recorded = member.term;
        let began_in = member.lead.as_ref().is_some_and(|lead| member.server.removed > lead.first);
        if plan.has(Flaw::SegmentGoesOn) && began_in {
            member.server.removed = member.len();
        }
    }

    /// Part of the log that a follower may remove, by the last marks that it knows to be committed.
    fn removal(&self, plan: &Plan, at: usize) -> Option<Removal> {
        let member = &self.members[at];
        let known = member.committed.min(member.server.durable);
        let is_any = plan.has(Flaw::MarksNotCommitted) || plan.has(Flaw::MarksNotInLog);
        let through = if is_any { member.len() } else { known };
        let are_marks = |at: &usize| matches!(member.server.log[*at], Record::Marks { .. });
        let (applied, marks) = if plan.has(Flaw::MarksNotInLog) {
            (known, self.leaders_marks(plan, at)?)
        } else {
            let last = (member.server.removed..through).rev().find(are_marks)?;
            let read = member.server.read_first(&plan.base, last + 1);
            (known.min(last + 1), read.has_caught_up().then(|| read.marks())?)
        };
        let sealed = if is_any { through } else { applied };
        let mut gc = Gc::default();
        for index in member.server.removed..sealed {
            gc.sealed(SegmentId(index as u64), member.server.summary(index));
        }
        let (record, removed) = collected(plan, gc, marks)?;
        Some(Removal { applied, record, removed })
    }

    /// Marks that a leader which reaches this member has now, in its log or not.
    fn leaders_marks(&self, plan: &Plan, at: usize) -> Option<GcRecord> {
        let leader = (0..MEMBERS).find(|from| self.would_take(plan, *from, at) && self.node(*from).is_some())?;
        let tranx = &self.node(leader)?.tranx;
        let servers = plan.base.config(self.members[at].server.id).servers;
        let low_water = servers.into_iter().map(|server| (server, tranx.participant.low_water(server))).collect();
        let (reserved_through, epochs_through) = (tranx.coordinator.reserved(), tranx.epochs.reserved());
        Some(GcRecord { reserved_through, low_water, epochs_through })
    }
}

/// Contents of the GC log, and the number of the entries that are removed, by what a collection
/// wants done.
fn collected(plan: &Plan, mut gc: Gc, marks: GcRecord) -> Option<(GcRecord, usize)> {
    let mut out = Outbox::default();
    let config = plan.base.config(super::member::GROUP);
    for event in [GcEvent::Collect(marks), GcEvent::Persisted, GcEvent::Recorded] {
        gc.on(&mut Turn { now_ms: 0, config: &config, out: &mut out }, event);
    }
    let [Command::PersistStorage, Command::WriteGcRecord(record), Command::RemoveSegments { through }] =
        &out.commands[..]
    else {
        return None;
    };
    Some((record.clone(), through.0 as usize + 1))
}
