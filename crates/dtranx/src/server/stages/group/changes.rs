//! Changes of the members (decision 0088): what an operator asks for, and the vote that a learner
//! gets once it has caught up. The machine decides whether a change may begin.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::known::Known;
use super::{GroupStage, Staged, id};
use crate::cluster::{MAX_LEARNERS, MAX_VOTERS, Place, Places, Role};
use crate::core::group::{self, Configuration, Event, MemberId, Unchanged};
use crate::core::{ClientId, StoreId};
use crate::server::event::ToClient;
use crate::server::member_event::Change;
use crate::wire::{GroupStatus, MemberMessage, Reply, Response, Told};

/// Time between two marks of what is committed.
const MARKS_MS: u64 = 250;

/// What the network and the other members have heard of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    in_force: group::Position,
    settled: group::Position,
    told: usize,
}

/// What was committed a moment ago, while this member leads: one that is in step has that, though
/// it lacks the latest entries at every moment.
#[derive(Debug, Default)]
pub(super) struct CommitMarks {
    older: Option<u64>,
    newer: Option<(u64, u64)>,
}

impl CommitMarks {
    fn note(&mut self, committed: u64, now_ms: u64) {
        if self.newer.is_none_or(|(_, at_ms)| now_ms >= at_ms + MARKS_MS) {
            let newer = self.newer.replace((committed, now_ms));
            self.older = newer.map(|(before, _)| before);
        }
    }

    /// `now`: what is committed now, if nothing was noted yet.
    fn before(&self, now: u64) -> u64 {
        self.older.unwrap_or(now)
    }
}

impl GroupStage {
    /// Tells the network, and the other members, when other members are in force, or settled.
    pub(super) fn note_configurations(&mut self, now_ms: u64) {
        let (Some(machine), Some(known)) = (&self.machine, &mut self.known) else { return };
        let (in_force, settled) = (machine.in_force().at, machine.settled_at());
        let said = Said { in_force, settled, told: known.told() };
        if self.said == Some(said) {
            return;
        }
        let Some(roster) = known.roster(in_force, settled) else { return };
        self.members = known.members(settled);
        let before = self.said.replace(Said { told: known.told(), ..said });
        let told = MemberMessage::Told(roster.told.clone());
        // Before the others are told: who calls meanwhile hears it by that.
        self.stats.note_roster(roster);
        if before.is_none_or(|before| (before.in_force, before.settled) != (in_force, settled)) {
            for to in self.members.values().copied().filter(|member| *member != self.me) {
                self.outlets.to_members.send(super::ToMember { to, message: told.clone() });
            }
        }
        if self.leads.is_some() {
            let (own, members) = (self.me, self.members.iter());
            let others = members.filter(|(_, number)| **number != own && !self.lacking.contains_key(number));
            self.retention.keep(others.map(|(id, _)| *id).collect(), now_ms);
        }
    }

    /// Another member tells which configuration is in force there.
    pub(super) fn hear_told(&mut self, from: u8, told: &Told, now_ms: u64) -> Result<(), String> {
        let (Some(machine), Some(known)) = (&self.machine, &mut self.known) else {
            self.told_early.insert(from, told.clone());
            return Ok(());
        };
        let Some(members) = known.hear(from, told, machine.settled_at()) else { return Ok(()) };
        let at = super::translate::place(told.at);
        self.on(Event::Meet { at, members }, Staged::Nothing, now_ms)
    }

    /// An operator asks for a change. The answer is given at once: it has begun, or it is refused.
    pub(super) fn change(&mut self, client: ClientId, id: u64, change: Change, now_ms: u64) -> Result<(), String> {
        let begun = match change {
            Change::Add { address, store } => self.add(address, store, now_ms)?,
            Change::Remove { number } => self.remove(number, now_ms)?,
        };
        let reply = match begun {
            Ok(number) => Reply::Place(number),
            Err(why) => Reply::Refused(why),
        };
        self.outlets.to_clients.send(ToClient { client, response: Response { id, reply } });
        Ok(())
    }

    fn add(&mut self, address: SocketAddr, store: StoreId, now_ms: u64) -> Result<Result<u8, String>, String> {
        let Some(now) = self.in_force() else { return Ok(Err("this member does not lead".to_owned())) };
        let had = self.known.as_ref().and_then(|known| known.number_of(&store));
        if let Some(number) = had.filter(|number| now.get(*number).is_some()) {
            return Ok(Ok(number));
        }
        if let Some(number) = had.filter(|number| now.has_removed(*number)) {
            let was = format!("the store {store} was that of member {number}, which was removed");
            return Ok(Err(format!("{was}: a new member needs an empty folder")));
        }
        let place = match Self::new_place(&now, address, store) {
            Ok(place) => place,
            Err(why) => return Ok(Err(why)),
        };
        let placed = Places { given: place.number, places: vec![place] };
        if let Some(Err(why)) = self.known.as_mut().map(|known| known.register(&placed)) {
            return Ok(Err(why));
        }
        let (voters, mut learners) = self.sides();
        learners.insert(id(&store));
        Ok(self.begin_change(voters, learners, now_ms)?.map(|()| place.number))
    }

    /// The place that a new store would get, or why it gets none.
    fn new_place(now: &Places, address: SocketAddr, store: StoreId) -> Result<Place, String> {
        if address.ip().is_unspecified() || address.port() == 0 {
            return Err(format!("{address} is no address at which others reach a member"));
        }
        if let Some(place) = now.places.iter().find(|place| place.address == address) {
            return Err(format!("{address} is the address of member {}", place.number));
        }
        let learners = now.places.iter().filter(|place| place.role == Role::Learns).count();
        if now.places.len() >= MAX_VOTERS {
            return Err(format!("a group has at most {MAX_VOTERS} members"));
        }
        if learners >= MAX_LEARNERS {
            return Err(format!("{learners} new members have no vote yet: at most {MAX_LEARNERS} catch up at a time"));
        }
        let number = now.given.checked_add(1).ok_or("all numbers of members were given: there are 255")?;
        Ok(Place { number, store, address, role: Role::Learns })
    }

    fn remove(&mut self, number: u8, now_ms: u64) -> Result<Result<u8, String>, String> {
        let Some(now) = self.in_force() else { return Ok(Err("this member does not lead".to_owned())) };
        let Some(place) = now.get(number) else {
            let has_been = now.has_removed(number) && number > 0;
            return Ok(if has_been { Ok(number) } else { Err(format!("the group has no member {number}")) });
        };
        if place.role == Role::Goes {
            return Ok(Ok(number));
        }
        let Some(id) = self.known.as_ref().map(|known| known.id(place)) else { return Ok(Ok(number)) };
        let (mut voters, mut learners) = self.sides();
        let votes = voters.remove(&id);
        learners.remove(&id);
        if voters.is_empty() {
            return Ok(Err(format!("member {number} is the only one with a vote")));
        }
        if let Some(behind) = self.lacks_majority(&voters, now_ms).filter(|_| votes) {
            let why = format!(
                "the members {behind:?} do not answer or have not caught up, and those that stay have no majority without them"
            );
            return Ok(Err(why));
        }
        Ok(self.begin_change(voters, learners, now_ms)?.map(|()| number))
    }

    /// Those of these voters that have not answered lately, or not shown to this leader that they
    /// have what was committed a moment ago, if the others are no majority: a change to them could
    /// not be finished, and a lost store not be replaced meanwhile. One that follows in a lost
    /// one's place has no vote before.
    fn lacks_majority(&self, voters: &BTreeSet<MemberId>, now_ms: u64) -> Option<Vec<u8>> {
        let machine = self.machine.as_ref()?;
        let own = self.known.as_ref().map(Known::own);
        let committed = self.marks.before(machine.state().committed);
        let is_in_step = |id: MemberId| self.retention.answers(id, now_ms) && machine.counted(id).get() >= committed;
        let is_behind = |id: &&MemberId| Some(**id) != own && !is_in_step(**id);
        let behind: Vec<MemberId> = voters.iter().filter(is_behind).copied().collect();
        let numbers = behind.iter().filter_map(|id| self.members.get(id).copied()).collect();
        (2 * (voters.len() - behind.len()) <= voters.len()).then_some(numbers)
    }

    /// Gives a vote to a learner that has caught up, unless a change is under way (C5).
    pub(super) fn promote(&mut self, now_ms: u64) -> Result<(), String> {
        let (Some(machine), Some(known)) = (&self.machine, &self.known) else { return Ok(()) };
        let in_force = machine.in_force().at;
        if self.serving.is_none() || in_force != machine.settled_at() {
            return Ok(());
        }
        let committed = machine.state().committed;
        self.marks.note(committed, now_ms);
        let Some((_, now)) = known.at(in_force).filter(|(_, now)| !now.is_joint()) else { return Ok(()) };
        let (mut voters, mut learners) = self.sides();
        let ready = learners.iter().copied().find(|learner| {
            let number = self.members.get(learner).copied().unwrap_or(0);
            machine.counted(*learner).get() >= committed && known.takes_the_same(number, now)
        });
        let Some(ready) = ready else { return Ok(()) };
        learners.remove(&ready);
        voters.insert(ready);
        // If it is refused, it is asked for again.
        self.begin_change(voters, learners, now_ms).map(drop)
    }

    /// The configuration in force, if the node of a life runs here.
    fn in_force(&self) -> Option<Places> {
        let machine = self.machine.as_ref().filter(|_| self.serving.is_some())?;
        self.known.as_ref()?.at(machine.in_force().at).map(|(_, places)| places.clone())
    }

    /// Those with a vote, and those without, in the configuration in force.
    fn sides(&self) -> (BTreeSet<MemberId>, BTreeSet<MemberId>) {
        let in_force = self.machine.as_ref().map(|machine| machine.in_force().configuration.clone());
        let Configuration { voters, learners, .. } = in_force.unwrap_or_default();
        (voters, learners)
    }

    fn begin_change(
        &mut self,
        voters: BTreeSet<MemberId>,
        learners: BTreeSet<MemberId>,
        now_ms: u64,
    ) -> Result<Result<(), String>, String> {
        self.unchanged = None;
        self.on(Event::Change { voters, learners }, Staged::Nothing, now_ms)?;
        Ok(self.unchanged.take().map_or(Ok(()), |why| Err(self.in_words(&why))))
    }

    fn in_words(&self, why: &Unchanged) -> String {
        match why {
            Unchanged::NoLeader => "this member does not lead".to_owned(),
            Unchanged::UnderWay { at } => {
                format!("another change of the members is under way: entry {} of the log", at.get())
            }
            Unchanged::NoSuchGroup => "no group has such members".to_owned(),
            Unchanged::Behind { member, counted, committed } => {
                let number = self.members.get(member).copied().unwrap_or(0);
                let (counted, committed) = (counted.get(), committed.get());
                format!("member {number} has the log up to entry {counted}, and {committed} is committed")
            }
        }
    }

    /// Publishes how far the members are.
    pub(super) fn note_progress(&self) {
        let (Some(machine), Some(roster)) = (&self.machine, self.stats.roster()) else { return };
        let others = self.members.iter().filter(|(_, number)| **number != self.me);
        let reached = others.map(|(id, number)| (*number, machine.counted(*id).get())).collect();
        let committed = machine.state().committed;
        let status = GroupStatus { leads: self.me, told: roster.told.clone(), committed, reached };
        self.stats.note_group(self.leads.map(|_| status));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn group(roles: &[Role], given: u8) -> Places {
        let place = |(number, role): (u8, &Role)| Place {
            number,
            store: StoreId([number; 16]),
            address: ([127, 0, 0, 1], u16::from(number)).into(),
            role: *role,
        };
        Places { given, places: (1..).zip(roles).map(place).collect() }
    }

    fn added(now: &Places) -> Result<Place, String> {
        GroupStage::new_place(now, ([127, 0, 0, 1], 99).into(), StoreId([99; 16]))
    }

    #[test]
    fn new_member_gets_a_number_that_none_had_and_no_vote() {
        let place = added(&group(&[Role::Votes; 3], 5)).unwrap();
        assert_eq!((place.number, place.role, place.store), (6, Role::Learns, StoreId([99; 16])));
        let refused =
            GroupStage::new_place(&group(&[Role::Votes; 3], 5), ([127, 0, 0, 1], 2).into(), StoreId([99; 16]));
        assert_eq!(refused.unwrap_err(), "127.0.0.1:2 is the address of member 2");
    }

    #[test]
    fn eighth_member_third_that_catches_up_and_256th_number_are_refused() {
        assert!(added(&group(&[Role::Votes; 6], 6)).is_ok());
        let (votes, learns) = (Role::Votes, Role::Learns);
        for full in [group(&[votes; 7], 7), group(&[votes, votes, votes, votes, votes, votes, learns], 7)] {
            assert_eq!(added(&full).unwrap_err(), "a group has at most 7 members");
        }
        let third = added(&group(&[votes, votes, votes, learns, learns], 5)).unwrap_err();
        assert!(third.contains("at most 2 catch up"), "{third}");
        assert!(added(&group(&[votes; 3], u8::MAX)).unwrap_err().contains("there are 255"));
    }
}
