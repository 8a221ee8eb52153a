//! The machines of one node apart: an event from one machine to another has not arrived yet when
//! something else happens.

use super::*;
use crate::core::node::{Link, Machine};

const TO_LOCK: Link = Link { from: Machine::Tranx, to: Machine::Lock };
const FROM_LOCK: Link = Link { from: Machine::Lock, to: Machine::Tranx };
const TO_ACK: Link = Link { from: Machine::Tranx, to: Machine::Ack };
const FROM_ACK: Link = Link { from: Machine::Ack, to: Machine::Tranx };

impl Rig {
    /// Handles an event, and delivers none of the events between machines that follow from it.
    fn take(&mut self, input: Input) -> Vec<Command> {
        let mut commands = Vec::new();
        self.node.take(self.now_ms, input, &mut commands);
        commands
    }

    fn take_message(&mut self, from: ServerId, message: Message) -> Vec<Command> {
        self.take(Input::Receive { from, message })
    }

    fn deliver(&mut self, link: Link) -> Vec<Command> {
        assert!(self.node.links().any(|waiting| waiting == link), "nothing is on its way: {link:?}");
        let mut commands = Vec::new();
        self.node.deliver(self.now_ms, link, &mut commands);
        commands
    }

    /// Decides a commit of its own that is durable, and of which the acknowledgement service has
    /// not heard.
    fn decide(&mut self) -> TranxId {
        let id = tranx(ME, 1);
        self.commit(1, put(&["2w"]));
        self.receive(PEER, vote(id, Vote::Yes));
        let through = LogTicket(self.last);
        self.take(Input::Logged { through });
        id
    }

    fn is_quiet(&self) -> bool {
        self.node.links().next().is_none()
    }
}

fn prepare(tranx: TranxId) -> Message {
    Message::Prepare { tranx, participants: vec![ME, PEER], part: put(&["1w"]), standing: Standing::default() }
}

#[test]
fn abort_that_overtakes_the_grant_leaves_nothing_locked() {
    for is_low_water in [false, true] {
        let mut rig = Rig::new(|_| {});
        let id = tranx(PEER, 1);
        rig.take_message(PEER, prepare(id));
        rig.deliver(TO_LOCK);
        let over = if is_low_water { low_water(1) } else { Message::Decisions(vec![(id, Outcome::Abort)]) };
        rig.take_message(PEER, over);
        assert_eq!(rig.deliver(FROM_LOCK), [], "the grant comes too late");
        assert_eq!(rig.node.status().locking, 1);
        rig.deliver(TO_LOCK);
        assert_eq!((rig.node.status().locking, rig.is_quiet()), (0, true));
    }
}

#[test]
fn prepare_repeated_while_the_lock_service_is_asked_asks_once() {
    let mut rig = Rig::new(|_| {});
    rig.take_message(PEER, prepare(tranx(PEER, 1)));
    rig.take_message(PEER, prepare(tranx(PEER, 1)));
    rig.deliver(TO_LOCK);
    let logged = rig.deliver(FROM_LOCK);
    assert!(matches!(records(&logged)[..], [(Record::Ready { .. }, true)]) && rig.is_quiet());
}

#[test]
fn inquiry_while_the_commit_is_on_its_way_to_be_sent_is_answered_commit() {
    let mut rig = Rig::new(|_| {});
    let id = rig.decide();
    assert!(!rig.is_quiet(), "the acknowledgement service has not heard of it");
    let asked = rig.take_message(PEER, Message::Inquire { tranx: id });
    assert_eq!(sent(asked), [(PEER, inquiry_answer(id, Some(Outcome::Commit(Epoch(0)))))]);
}

#[test]
fn acknowledgement_that_overtakes_the_decision_does_not_complete_it() {
    let mut rig = Rig::new(|_| {});
    let id = rig.decide();
    rig.take_message(PEER, Message::Acknowledge(vec![id]));
    assert_eq!(sent(rig.deliver(TO_ACK)), [(PEER, Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]))]);
    assert!(rig.is_quiet() && rig.node.status().low_water == 0);
    rig.take_message(PEER, Message::Acknowledge(vec![id]));
    rig.deliver(FROM_ACK);
    assert_eq!((rig.node.status().low_water, rig.node.status().coordinating), (1, 0));
}

#[test]
fn low_water_waits_for_this_servers_own_part() {
    let mut rig = Rig::new(|_| {});
    let id = tranx(ME, 1);
    rig.commit(1, put(&["1w", "2w"]));
    rig.receive(PEER, vote(id, Vote::Yes));
    rig.flush();
    rig.receive(PEER, Message::Acknowledge(vec![id]));
    assert_eq!(rig.node.status().low_water, 0, "it is not applied here");
    rig.on(Input::Applied { tranx: id });
    assert_eq!((rig.node.status().low_water, rig.node.status().locking), (1, 0));
}

#[test]
fn acknowledgements_are_gathered_and_sent_together_or_with_a_decision() {
    let mut rig = Rig::new(|config| config.acknowledgement_delay_ms = 3);
    for number in 1..=2 {
        let id = tranx(PEER, number);
        let part = put(&[if number == 1 { "1a" } else { "1b" }]);
        rig.prepare(id, part);
        rig.flush();
        rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]));
        rig.on(Input::Applied { tranx: id });
        assert_eq!(sent(rig.flush()), []);
    }
    rig.now_ms = 3;
    let both = vec![tranx(PEER, 1), tranx(PEER, 2)];
    assert_eq!(sent(rig.on(Input::Tick)), [(PEER, Message::Acknowledge(both))]);

    let id = tranx(PEER, 3);
    rig.prepare(id, put(&["1c"]));
    rig.flush();
    rig.receive(PEER, Message::Decisions(vec![(id, Outcome::Commit(Epoch(0)))]));
    rig.on(Input::Applied { tranx: id });
    assert_eq!(sent(rig.flush()), []);
    // An own transaction, decided before the time has come.
    rig.commit(1, put(&["2a"]));
    rig.receive(PEER, vote(tranx(ME, 1), Vote::Yes));
    let decision = Message::Decisions(vec![(tranx(ME, 1), Outcome::Commit(Epoch(0)))]);
    assert_eq!(sent(rig.flush()), [(PEER, decision), (PEER, Message::Acknowledge(vec![id]))]);
}

#[test]
fn parts_beyond_the_limit_are_refused_by_its_name() {
    // Of other servers' transactions there may be twice as many.
    let mut rig = Rig::new(|config| config.max_running = 1);
    for (number, key) in [(1, "1a"), (2, "1b")] {
        assert_eq!(sent(rig.prepare(tranx(PEER, number), put(&[key]))), []);
    }
    let limit = "2 transactions under way".to_owned();
    let no = vote(tranx(PEER, 3), Vote::No(Refusal::Overloaded { limit }));
    assert_eq!(sent(rig.prepare(tranx(PEER, 3), put(&["1c"]))), [(PEER, no)]);
}

#[test]
fn in_doubt_is_asked_about_until_it_is_settled_and_with_growing_waits() {
    let mut rig = Rig::new(|config| config.inquiry_ms = 10);
    let id = tranx(PEER, 1);
    rig.prepare(id, put(&["1w"]));
    rig.flush();
    let mut waits = Vec::new();
    for _ in 0..7 {
        let at_ms = rig.node.next_deadline_ms().unwrap();
        waits.push(at_ms - rig.now_ms);
        rig.now_ms = at_ms;
        assert!(sent(rig.on(Input::Tick)).contains(&(PEER, Message::Inquire { tranx: id })));
    }
    assert_eq!(waits, [10, 10, 20, 40, 80, 160, 160]);
    assert_eq!(rig.node.status().asking, 1);
    rig.receive(PEER, inquiry_answer(id, Some(Outcome::Abort)));
    assert_eq!((rig.node.status().asking, rig.node.next_deadline_ms()), (0, None));
}
