//! Which segments of members go: those that the marks in their logs make superfluous, as far as
//! every other member has what is in them. (One that lacks it would need the items.)

use super::super::{place::Place, world::World};
use crate::core::{Input, SegmentId, SegmentSummary, group::Position};

impl World<'_> {
    /// Tells the collection of the segments that are complete: all entries in them are committed or
    /// void.
    pub(super) fn seal(&mut self, place: Place) {
        let Some(server) = self.servers.get_mut(&place) else { return };
        let has_node = server.node.is_some();
        let Some(member) = &mut server.member else { return };
        let complete = member.log.complete(member.sealed, member.acted);
        let places = member.log.places();
        for segment in complete {
            let mut summary = SegmentSummary::default();
            for (at, _) in places.iter().filter(|(_, of)| *of == segment) {
                self.contents[&(place.server, *at)].iter().for_each(|record| summary.note(record));
            }
            let Some(member) = self.servers.get_mut(&place).and_then(|server| server.member.as_mut()) else { return };
            member.sealed = segment;
            if has_node {
                self.input(place, Input::SegmentSealed { segment, summary });
            } else {
                member.gc.sealed(segment, summary);
            }
        }
    }

    /// Removes the segments of a member that may go.
    pub(crate) fn remove_superfluous(&mut self, place: Place) {
        let Some(member) = self.servers.get(&place).and_then(|server| server.member.as_ref()) else { return };
        let (places, through) = (member.log.places(), member.superfluous);
        let needed: Vec<SegmentId> =
            places.iter().filter(|(at, _)| !self.have_all(place, *at)).map(|(_, segment)| *segment).collect();
        let last = needed.into_iter().min().map_or(through, |first| through.min(SegmentId(first.0 - 1)));
        self.most_segments = self.most_segments.max(member.log.segments());
        if let Some(member) = self.servers.get_mut(&place).and_then(|server| server.member.as_mut()) {
            member.log.remove_through(last);
        }
    }

    /// Returns true if every other member that has its disk has this entry.
    fn have_all(&self, place: Place, at: Position) -> bool {
        let others = self.servers.values().filter(|other| other.id() == place.server && other.place != place);
        others.filter_map(|other| other.member.as_ref()).all(|member| member.is_lost || member.log.has(at))
    }
}
