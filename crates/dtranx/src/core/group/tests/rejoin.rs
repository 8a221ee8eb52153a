//! A store that takes a lost one's place (decision 0081).

use std::collections::BTreeSet;

use super::*;

/// The store that takes `C`'s place.
const NEW: MemberId = MemberId(42);

/// Their first configuration, which is in no log.
const SETTLED: Option<Position> = Some(Position::ZERO);

fn members() -> BTreeSet<MemberId> {
    [id(A), id(B), NEW].into()
}

fn start(rejoins: Rejoin, found: Found) -> (Group, Vec<Command>) {
    let mut out = Vec::new();
    let config = Config { me: NEW, before: Placed::first(members()), rejoins: Some(rejoins), flaw: None };
    (Group::start(config, found, &mut out), out)
}

/// A rejoining member with an empty log.
fn asking() -> Group {
    start(Rejoin::Asking, empty()).0
}

/// Bounds that the others have answered: term 3, and entries up to the fifth.
const PROMISED: Promised = Promised { term: Term::new(3), last: Position { term: Term::new(2), index: Index::new(5) } };

/// A member that knows what the others have answered.
fn following(found: Found) -> (Group, Vec<Command>) {
    start(Rejoin::Following(PROMISED), found)
}

fn empty() -> Found {
    disk::Disk::new().crash(0)
}

fn on(group: &mut Group, event: Event) -> Vec<Command> {
    let mut out = Vec::new();
    group.on(event, &mut out);
    out
}

fn receive(group: &mut Group, from: usize, message: Message) -> Vec<Command> {
    on(group, Event::Receive { from: id(from), message })
}

fn answer(term: u64, last: Position) -> Message {
    Message::RejoinAnswer { term: Term::new(term), last, rejoins: false, members: members(), settled: SETTLED }
}

fn sync(group: &mut Group) -> Vec<Command> {
    let through = group.last_write();
    on(group, Event::Synced { through })
}

fn stand(from: usize, term: u64, last_position: Position) -> Message {
    Message::Raft(noraft::Message::RequestVoteCall { from: id(from).into(), term: Term::new(term), last_position })
}

fn acknowledged(out: &[Command]) -> Vec<Position> {
    let position = |command: &Command| match command {
        Command::Send { message: Message::Raft(noraft::Message::AppendEntriesReply { last_position, .. }), .. } => {
            Some(*last_position)
        }
        _ => None,
    };
    out.iter().filter_map(position).collect()
}

fn asked(out: &[Command]) -> Vec<MemberId> {
    let to = |command: &Command| match command {
        Command::Send { to, message: Message::Rejoin } => Some(*to),
        _ => None,
    };
    out.iter().filter_map(to).collect()
}

#[test]
fn it_asks_all_others_until_they_have_answered_and_takes_nothing_else() {
    let mut group = asking();
    assert_eq!(asked(&on(&mut group, Event::Tick(Timer::Election))), [id(A), id(B)]);
    assert_eq!(receive(&mut group, A, answer(3, at(2, 4))), []);
    assert_eq!(asked(&on(&mut group, Event::Tick(Timer::Election))), [id(B)]);
    let round = Message::Round { term: Term::ZERO, number: 1 };
    for message in [batch(A, 3, at(0, 0), &[2], 1), stand(A, 4, at(2, 5)), round] {
        assert_eq!(receive(&mut group, A, message.clone()), [], "{message:?}");
    }
    assert_eq!(group.waits_for(), [id(B)]);
    // The latest term and the newest entry need not be of one member.
    assert_eq!(receive(&mut group, B, answer(2, at(2, 5))), [Command::Follow(PROMISED)]);
    assert_eq!(asked(&on(&mut group, Event::Tick(Timer::Election))), []);
    assert_eq!(receive(&mut group, B, answer(2, at(2, 5))), [], "it is said once");
}

#[test]
fn majority_of_those_that_have_a_vote_has_to_answer() {
    let mut group = asking();
    receive(&mut group, A, answer(3, at(2, 5)));
    let rejoining = Message::RejoinAnswer {
        term: Term::new(9),
        last: at(0, 0),
        rejoins: true,
        members: members(),
        settled: SETTLED,
    };
    assert_eq!(receive(&mut group, B, rejoining), []);
    // It may have rejoined meanwhile, so it is asked again.
    assert_eq!(asked(&on(&mut group, Event::Tick(Timer::Election))), [id(B)]);
    let promised = Promised { term: Term::new(9), last: at(3, 6) };
    assert_eq!(receive(&mut group, B, answer(9, at(3, 6))), [Command::Follow(promised)]);
}

#[test]
fn answer_of_a_member_that_knows_other_stores_does_not_count() {
    let mut group = asking();
    receive(&mut group, A, answer(3, at(2, 5)));
    // It still takes something from a store that others have replaced.
    let others = [id(B), NEW, MemberId(77)].into();
    let message =
        Message::RejoinAnswer { term: Term::new(3), last: at(2, 5), rejoins: false, members: others, settled: SETTLED };
    assert_eq!(receive(&mut group, B, message), []);
    assert_eq!(group.waits_for(), [id(B)]);
    assert_eq!(receive(&mut group, B, answer(3, at(2, 5))), [Command::Follow(PROMISED)]);
}

#[test]
fn answer_that_names_an_entry_of_a_later_term_than_its_own_is_dropped() {
    let mut group = asking();
    receive(&mut group, A, answer(3, at(2, 5)));
    // As a bound, no log would ever meet it.
    assert_eq!(receive(&mut group, B, answer(3, at(4, 5))), []);
    assert_eq!(group.waits_for(), [id(B)]);
}

#[test]
fn it_acknowledges_nothing_before_the_latest_term_is_synced_with_a_vote_of_its_own() {
    let (mut group, out) = following(empty());
    let state = State { term: 3, vote: Some(NEW), committed: 0 };
    let written = out.iter().any(|command| matches!(command, Command::Write { state: Some(is), .. } if *is == state));
    assert!(written && group.state() == state, "{out:?}");
    // A leader of an earlier term hears of the later one once that is synced.
    let early = receive(&mut group, B, batch(B, 2, at(0, 0), &[2], 1));
    assert!(!early.iter().any(|command| matches!(command, Command::Send { .. })), "{early:?}");
    let out = receive(&mut group, A, batch(A, 3, at(0, 0), &[2, 2, 2, 2, 2], 3));
    assert_eq!(acknowledged(&out), []);
    assert!(acknowledged(&sync(&mut group)).contains(&at(2, 5)));
}

#[test]
fn it_gives_no_vote_and_does_not_stand_until_it_has_what_the_others_had() {
    let (mut group, _) = following(empty());
    sync(&mut group);
    receive(&mut group, A, batch(A, 3, at(0, 0), &[2, 2, 2, 2], 4));
    assert!(!sync(&mut group).contains(&Command::Rejoined));
    assert_eq!(receive(&mut group, B, stand(B, 7, at(6, 9))), []);
    on(&mut group, Event::Tick(Timer::Silence));
    let out = receive(&mut group, B, Message::Ask { term: Term::new(4), last: at(3, 9) });
    let refusal = Message::Would { term: Term::new(3), asked: Term::new(4), grants: false };
    assert_eq!(out, [Command::Send { to: id(B), message: refusal }]);
    let out = on(&mut group, Event::Tick(Timer::Election));
    assert_eq!(out, [Command::Set(Timer::Election)]);
    // The fifth entry is what the others had, and it has to be synced.
    let out = receive(&mut group, A, batch(A, 3, at(2, 4), &[2], 4));
    assert!(!out.contains(&Command::Rejoined), "{out:?}");
    let out = sync(&mut group);
    assert_eq!(out.iter().filter(|command| **command == Command::Rejoined).count(), 1);
    receive(&mut group, A, batch(A, 3, at(2, 5), &[3], 5));
    assert!(!sync(&mut group).contains(&Command::Rejoined), "it says so once");
}

#[test]
fn entry_of_a_later_term_is_as_good_as_what_the_others_had() {
    let (mut group, _) = following(empty());
    sync(&mut group);
    receive(&mut group, B, batch(B, 4, at(0, 0), &[2, 4], 0));
    assert!(sync(&mut group).contains(&Command::Rejoined));
}

#[test]
fn member_that_starts_again_keeps_a_later_term_and_has_rejoined_if_it_has_enough() {
    let state = State { term: 6, vote: Some(id(A)), committed: 0 };
    let (group, out) = following(Found { state, entries: log(&[2, 2, 2, 2, 2, 6]) });
    assert!(group.state() == state && out.contains(&Command::Rejoined), "{out:?}");
    // The term was not synced before a crash, and the entries were.
    let (mut group, out) = following(Found { state: State::default(), entries: log(&[2, 2, 2, 2, 2]) });
    assert!(!out.contains(&Command::Rejoined), "{out:?}");
    assert!(sync(&mut group).contains(&Command::Rejoined));
}

#[test]
fn members_answer_what_they_know_once_they_know_the_store() {
    let mut rig = Rig::led();
    rig.append(A);
    assert_eq!(rig.on(A, Event::Receive { from: NEW, message: Message::Rejoin }), []);
    // Written, and not synced: others may have acknowledged it all the same.
    let found = rig.disks[A].crash(usize::MAX);
    let mut group = Group::start(Config { before: Placed::first(members()), ..rig::config(A) }, found, &mut vec![]);
    let answered = on(&mut group, Event::Receive { from: NEW, message: Message::Rejoin });
    assert_eq!(answered, [Command::Send { to: NEW, message: answer(1, at(1, 2)) }]);
    // The lost store is no member.
    assert_eq!(on(&mut group, Event::Receive { from: id(C), message: stand(C, 7, at(6, 9)) }), []);
}

#[test]
fn member_that_asks_answers_another_one_that_does() {
    let answered = receive(&mut asking(), B, Message::Rejoin);
    let message =
        Message::RejoinAnswer { term: Term::ZERO, last: at(0, 0), rejoins: true, members: members(), settled: SETTLED };
    assert_eq!(answered, [Command::Send { to: id(B), message }]);
}
