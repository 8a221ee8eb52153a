//! How the node of a life begins and ends, and what is applied in between.

use super::super::{place::Place, world::World};
use crate::core::{
    Input, Key, LogTicket, Record, Recovery,
    group::{Index, Position},
    machine::GcEvent,
};

impl World<'_> {
    /// A member reads its log from the beginning.
    pub(super) fn read_anew(&mut self, place: Place) {
        let Some(server) = self.servers.get_mut(&place) else { return };
        let recovery = Recovery::new(server.config.clone(), server.disk.gc_record.clone());
        if let Some(member) = &mut server.member {
            member.begin_to_read(recovery);
        }
    }

    /// The records of the entries behind the last one that was acted on, up to `through`.
    fn entries(&self, place: Place, through: Index) -> Vec<(Position, crate::core::SegmentId, Vec<Record>)> {
        let Some(member) = self.servers.get(&place).and_then(|server| server.member.as_ref()) else { return vec![] };
        let places = member.log.places().into_iter();
        let next = places.filter(|(at, _)| at.index > member.acted && at.index <= through);
        next.map(|(at, segment)| (at, segment, self.contents[&(place.server, at)].clone())).collect()
    }

    /// A member without a node applies what is committed, and collects by the marks in it.
    pub(super) fn apply(&mut self, place: Place, through: Index) {
        let entries = self.entries(place, through);
        let Some(server) = self.servers.get_mut(&place) else { return };
        let Some(member) = &mut server.member else { return };
        let Some(recovery) = &mut member.recovery else { return };
        let mut has_marks = false;
        for (at, segment, records) in entries {
            for record in records {
                has_marks |= matches!(record, Record::Marks { .. });
                if let Some((tranx, writes)) = recovery.record(segment, record) {
                    let concerned = self.history.concerned(tranx, &writes);
                    server.disk.apply(tranx, writes.clone(), concerned);
                    member.applied.push((tranx, writes));
                }
            }
            member.acted = at.index;
        }
        let (marks, may_collect) = (recovery.marks(), has_marks && recovery.has_caught_up());
        self.seal(place);
        let Some(server) = self.servers.get_mut(&place).filter(|_| may_collect) else { return };
        let Some(member) = &mut server.member else { return };
        let commands = member.on_garbage(&server.config, GcEvent::Collect(marks));
        self.carry_out(place, commands);
    }

    /// The node of a leader hears what is logged.
    pub(super) fn hear_logged(&mut self, place: Place, through: Index) {
        let Some(member) = self.servers.get_mut(&place).and_then(|server| server.member.as_mut()) else { return };
        member.acted = through;
        let later = member.tickets.split_off(&Index::new(through.get() + 1));
        let last = std::mem::replace(&mut member.tickets, later).into_values().max();
        self.seal(place);
        if let Some(ticket) = last {
            self.input(place, Input::Logged { through: LogTicket(ticket) });
        }
    }

    /// A life begins: its node recovers from what was applied, in a new segment (G18).
    pub(super) fn begin_life(&mut self, place: Place) {
        let Some(server) = self.servers.get_mut(&place) else { return };
        let now_ms = server.now_ms(self.now_us);
        let Some(member) = &mut server.member else { return };
        let Some(mut recovery) = member.recovery.take() else { return };
        recovery.stored_map(server.disk.items.get(&Key::of_map())).expect("the map is as it was written");
        for (tranx, writes) in std::mem::take(&mut member.applied) {
            self.history.applied(place.server, tranx, &writes);
        }
        member.forget_node();
        member.log.roll();
        member.sealed = member.log.closed();
        let mut commands = Vec::new();
        let node = recovery.finish(now_ms, &mut commands);
        server.disk.begin_snapshots(node.tranx.epochs.now());
        server.life += 1;
        server.node = Some(node);
        self.groups.lives += 1;
        let others = self.servers.values().filter(|other| other.id() == place.server && other.node.is_some());
        self.groups.overlaps += usize::from(others.count() > 1);
        self.carry_out(place, commands);
        self.pass_on(place);
    }

    /// A leader steps down: its node goes, with all that it kept in memory (G19).
    pub(super) fn end_life(&mut self, place: Place) {
        if let Some(server) = self.servers.get_mut(&place) {
            server.stop();
        }
        self.read_anew(place);
    }
}
