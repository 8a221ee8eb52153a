//! Members that come and go, by the histories of decision 0088 that break simpler rules.

use std::collections::BTreeSet;

use super::*;

const D: usize = 3;

fn ids(members: &[usize]) -> BTreeSet<MemberId> {
    members.iter().copied().map(id).collect()
}

fn configuration(voters: &[usize], next: &[usize], learners: &[usize]) -> Configuration {
    Configuration { voters: ids(voters), next: ids(next), learners: ids(learners) }
}

/// Members that start for the first time.
fn new(voters: &[usize], learners: &[usize]) -> Rig {
    let found: Vec<(u64, u64, &[u64])> = vec![(0, 0, &[]); voters.len() + learners.len()];
    Rig::of(configuration(voters, &[], learners), &found)
}

/// Members of which `A` leads in term 1; the last ones have no vote.
fn led(voters: &[usize], learners: &[usize]) -> Rig {
    let mut rig = new(voters, learners);
    rig.elect_among(A, &[voters, learners].concat());
    rig
}

/// `A`, `B` and `C` have a vote, and `D` has none yet.
fn four() -> Rig {
    led(&[A, B, C], &[D])
}

fn change(rig: &mut Rig, member: usize, voters: &[usize], learners: &[usize]) -> Vec<Command> {
    rig.on(member, Event::Change { voters: ids(voters), learners: ids(learners) })
}

fn unchanged(out: &[Command]) -> Option<Unchanged> {
    out.iter().find_map(|command| if let Command::Unchanged(why) = command { Some(why.clone()) } else { None })
}

fn sent(out: &[Command]) -> Vec<(MemberId, Message)> {
    let sent = |command: &Command| match command {
        Command::Send { to, message } => Some((*to, message.clone())),
        _ => None,
    };
    out.iter().filter_map(sent).collect()
}

fn has_logged(out: &[(usize, Command)], member: usize, index: u64) -> bool {
    out.contains(&(member, Command::Logged { through: Index::new(index) }))
}

fn vote(from: usize, term: u64) -> Message {
    let term = Term::new(term);
    Message::Raft(noraft::Message::RequestVoteReply { from: id(from).into(), term, vote_granted: true })
}

fn stand(from: usize, term: u64, last_position: Position) -> Message {
    Message::Raft(noraft::Message::RequestVoteCall { from: id(from).into(), term: Term::new(term), last_position })
}

/// A batch with one configuration.
fn configured(from: usize, term: u64, before: Position, to: &Configuration, committed: u64) -> Message {
    let entries = Entries::from_iter(before, [noraft::LogEntry::ClusterConfig(to.into())]);
    let (term, commit_index) = (Term::new(term), Index::new(committed));
    Message::Raft(noraft::Message::AppendEntriesCall { from: id(from).into(), term, commit_index, entries })
}

#[test]
fn voters_change_by_a_joint_configuration_and_a_final_one() {
    let mut rig = four();
    change(&mut rig, A, &[A, D], &[]);
    assert_eq!(rig.groups[A].in_force().configuration, configuration(&[A, B, C], &[A, D], &[]));
    rig.settle(&[A, B, C, D]);
    for member in [A, D] {
        assert_eq!(rig.groups[member].in_force().configuration, configuration(&[A, D], &[], &[]));
    }
    assert_eq!(rig.groups[A].settled(), Placed { at: at(1, 3), configuration: configuration(&[A, D], &[], &[]) });
    // Both count from now on, and nobody else does.
    rig.append(A);
    assert!(!has_logged(&rig.settle(&[A, B, C]), A, 4));
    rig.tick(A, Timer::Heartbeat);
    assert!(has_logged(&rig.settle(&[A, D]), A, 4));
}

#[test]
fn joint_configuration_needs_a_majority_of_the_old_voters_and_one_of_the_next() {
    for (heard, is_committed) in [(vec![A, B, C], false), (vec![A, D], false), (vec![A, B, D], true)] {
        let mut rig = four();
        change(&mut rig, A, &[A, D], &[]);
        let out = rig.settle(&heard);
        assert_eq!(has_logged(&out, A, 2), is_committed, "{heard:?}");
        assert_eq!(rig.groups[A].in_force().configuration.is_joint(), !is_committed, "{heard:?}");
    }
}

#[test]
fn candidate_with_a_joint_configuration_needs_both_majorities() {
    let joint = configuration(&[A, B, C], &[A, D], &[]);
    let mut rig = four();
    rig.receive(B, A, configured(A, 1, at(1, 1), &joint, 1));
    rig.sync(B);
    rig.tick(B, Timer::Silence);
    rig.tick(B, Timer::Election);
    let would = Message::Would { term: Term::new(1), asked: Term::new(2), grants: true };
    rig.receive(B, C, would.clone());
    rig.receive(B, A, would.clone());
    assert_eq!(rig.groups[B].stands(), None, "of A and D only one would vote");
    rig.receive(B, D, would);
    assert_eq!(rig.groups[B].stands(), Some(Term::new(2)));
    rig.receive(B, C, vote(C, 2));
    rig.receive(B, A, vote(A, 2));
    assert_eq!(rig.groups[B].leads(), None);
    rig.receive(B, D, vote(D, 2));
    assert_eq!(rig.groups[B].leads(), Some(Term::new(2)));
}

/// The crate's votes cannot be read, and two candidates that differ in them are not the same.
#[test]
fn candidates_with_different_votes_differ() {
    let standing = || {
        let mut rig = new(&[A, B, C, D], &[]);
        rig.tick(A, Timer::Election);
        for other in [B, C] {
            rig.receive(A, other, Message::Would { term: Term::ZERO, asked: Term::new(1), grants: true });
        }
        rig
    };
    let (mut one, mut other) = (standing(), standing());
    assert!(one.groups[A] == other.groups[A] && one.groups[A].stands().is_some());
    one.receive(A, B, vote(B, 1));
    assert!(one.groups[A] != other.groups[A]);
    other.receive(A, C, vote(C, 1));
    assert!(one.groups[A] != other.groups[A]);
    assert_eq!(one.groups[A].leads(), None, "two of four are no majority");
}

#[test]
fn change_is_refused_with_its_reason() {
    let mut rig = four();
    assert_eq!(unchanged(&change(&mut rig, B, &[A, B], &[D])), Some(Unchanged::NoLeader));
    let wrong: [(&[usize], &[usize]); 5] =
        [(&[], &[D]), (&[A, B, C], &[D]), (&[A, B, C], &[C, D]), (&[A, B], &[C]), (&[A, B, C], &[D, 4, 5])];
    for (voters, learners) in wrong {
        assert_eq!(unchanged(&change(&mut rig, A, voters, learners)), Some(Unchanged::NoSuchGroup), "{voters:?}");
    }
    let behind = Unchanged::Behind { member: id(4), counted: Index::ZERO, committed: Index::new(1) };
    assert_eq!(unchanged(&change(&mut rig, A, &[A, B, C, 4], &[D])), Some(behind), "it is no learner");
    // One that has not acknowledged what is committed.
    rig.append(A);
    rig.settle(&[A, B, C]);
    let behind = Unchanged::Behind { member: id(D), counted: Index::new(1), committed: Index::new(2) };
    assert_eq!(unchanged(&change(&mut rig, A, &[A, B, C, D], &[])), Some(behind));
    rig.tick(A, Timer::Heartbeat);
    rig.settle(&[A, D]);
    assert_eq!(unchanged(&change(&mut rig, A, &[A, B, C, D], &[])), None);
    let under_way = Unchanged::UnderWay { at: Index::new(3) };
    assert_eq!(unchanged(&change(&mut rig, A, &[A, B, C], &[])), Some(under_way));
}

/// The final configuration is in the log of a leader, and nobody has acknowledged it.
#[test]
fn change_waits_until_the_final_configuration_is_committed() {
    let mut rig = four();
    change(&mut rig, A, &[A, B, C, D], &[]);
    rig.sync(A);
    for other in [B, C, D] {
        rig.deliver(A, other);
        rig.sync(other);
        rig.deliver(other, A);
    }
    assert!(!rig.groups[A].in_force().configuration.is_joint());
    let under_way = Unchanged::UnderWay { at: Index::new(3) };
    assert_eq!(unchanged(&change(&mut rig, A, &[A, B, C], &[])), Some(under_way));
}

/// With the final configuration in its log it could not stand, and nobody that lacks it would get
/// its vote.
#[test]
fn leader_that_goes_steps_down_before_it_has_the_final_configuration() {
    let mut rig = four();
    change(&mut rig, A, &[B, C, D], &[]);
    let out = rig.settle(&[A, B, C, D]);
    assert!(out.contains(&(A, Command::End { life: Term::new(1) })));
    let state = State { term: 1, vote: Some(id(A)), committed: 2 };
    assert_eq!((rig.groups[A].leads(), rig.groups[A].state()), (None, state));
    assert_eq!(rig.groups[A].last(), at(1, 2), "the joint configuration, which is committed");
    // It lets the others stand first, and is heard until they have the final one.
    assert_eq!(rig.tick(A, Timer::Election), [Command::Set(Timer::Election)]);
    rig.elect_among(B, &[A, B, C, D]);
    assert_eq!(rig.groups[B].settled().configuration, configuration(&[B, C, D], &[], &[]));
    assert!(!rig.groups[B].knows(id(A)));
}

/// Nobody else can be elected, because nobody else has all that it has.
#[test]
fn leader_that_goes_stands_again_if_nobody_else_does() {
    let mut rig = led(&[A], &[B]);
    change(&mut rig, A, &[B], &[]);
    rig.sync(A);
    rig.mail.clear();
    rig.crash(A, 0);
    rig.tick(B, Timer::Silence);
    assert_eq!(sent(&rig.tick(A, Timer::Election)).len(), 1, "the joint configuration is not settled here");
    rig.settle(&[A, B]);
    assert_eq!(rig.groups[A].leads(), None);
    assert_eq!(rig.groups[A].in_force().configuration, configuration(&[A], &[B], &[]));
    assert!(sent(&rig.tick(A, Timer::Election)).is_empty());
    assert!(!sent(&rig.tick(A, Timer::Election)).is_empty(), "it has waited once");
    rig.mail.clear();
    rig.elect_among(B, &[A, B]);
    assert_eq!(rig.groups[B].settled().configuration, configuration(&[B], &[], &[]));
}

#[test]
fn round_of_a_joint_configuration_needs_both_majorities() {
    let mut rig = four();
    change(&mut rig, A, &[A, D], &[]);
    rig.on(A, Event::Hold { life: Term::new(1), answer: AnswerId(1) });
    let confirm = Message::Confirm { term: Term::new(1), number: 9 };
    let release = Command::Release { answer: AnswerId(1) };
    assert!(!rig.receive(A, D, confirm.clone()).contains(&release));
    assert!(rig.receive(A, B, confirm).contains(&release));
}

#[test]
fn learners_count_nowhere() {
    let mut rig = four();
    // Neither for a commit, nor in a round, nor for the contact of a leader.
    rig.append(A);
    rig.on(A, Event::Hold { life: Term::new(1), answer: AnswerId(1) });
    let out = rig.settle(&[A, D]);
    assert!(!has_logged(&out, A, 2));
    assert!(rig.disks[D].has(at(1, 2)), "it has the entry");
    let confirm = Message::Confirm { term: Term::new(1), number: 9 };
    assert!(!rig.receive(A, D, confirm).contains(&Command::Release { answer: AnswerId(1) }));
    rig.tick(A, Timer::Contact);
    rig.receive(A, D, Message::Confirm { term: Term::new(1), number: 9 });
    assert!(rig.tick(A, Timer::Contact).contains(&Command::End { life: Term::new(1) }));
    // Nor in an election, in which it does not stand.
    assert!(sent(&rig.tick(D, Timer::Election)).is_empty());
    rig.tick(B, Timer::Silence);
    rig.tick(B, Timer::Election);
    rig.receive(B, D, Message::Would { term: Term::new(1), asked: Term::new(2), grants: true });
    assert_eq!(rig.groups[B].stands(), None);
    rig.receive(B, C, Message::Would { term: Term::new(1), asked: Term::new(2), grants: true });
    rig.receive(B, D, vote(D, 2));
    assert_eq!((rig.groups[B].stands(), rig.groups[B].leads()), (Some(Term::new(2)), None));
}

#[test]
fn configuration_that_is_void_does_not_count() {
    let joint = configuration(&[A, B, C], &[A, D], &[]);
    let mut rig = four();
    rig.receive(B, A, configured(A, 1, at(1, 1), &joint, 1));
    rig.sync(B);
    assert_eq!(rig.groups[B].in_force().at, at(1, 2));
    // It counts after a start, too, although nobody has called it committed.
    rig.crash(B, 0);
    assert_eq!(rig.groups[B].in_force(), &Placed { at: at(1, 2), configuration: joint });
    rig.receive(B, C, batch(C, 2, at(1, 1), &[2], 1));
    assert_eq!(rig.groups[B].in_force().configuration, configuration(&[A, B, C], &[], &[D]));
    rig.sync(B);
    rig.crash(B, 0);
    assert_eq!(rig.groups[B].in_force().configuration, configuration(&[A, B, C], &[], &[D]));
}

/// Entries may be removed from the beginning of a log, a configuration with them.
#[test]
fn configuration_before_the_log_counts_if_the_log_has_none() {
    let before = Placed { at: at(2, 4), configuration: configuration(&[B, C, D], &[], &[]) };
    let found = Found { state: State { term: 2, vote: None, committed: 6 }, entries: Entries::new(at(2, 6)) };
    let mut group = Group::start(Config { before: before.clone(), ..rig::config(B) }, found, &mut vec![]);
    assert_eq!((group.in_force(), group.settled()), (&before, before.clone()));
    let mut out = vec![];
    group.on(Event::Receive { from: id(A), message: stand(A, 7, at(6, 9)) }, &mut out);
    assert_eq!(out, [], "it is no member any more");
    group.on(Event::Receive { from: id(D), message: stand(D, 7, at(6, 9)) }, &mut out);
    assert_ne!(out, []);
}

#[test]
fn removed_member_is_not_heard_once_that_is_committed() {
    let mut rig = four();
    let (joint, last) = (configuration(&[A, B, C], &[A, B], &[D]), configuration(&[A, B], &[], &[D]));
    rig.receive(B, A, configured(A, 1, at(1, 1), &joint, 2));
    rig.receive(B, A, configured(A, 1, at(1, 2), &last, 2));
    rig.sync(B);
    // It may be what leads next, as long as that is not committed.
    rig.on(B, Event::Meet { at: at(1, 3), members: ids(&[A, B, 4]) });
    assert!(rig.groups[B].knows(id(C)) && rig.groups[B].knows(id(4)));
    rig.receive(B, A, batch(A, 1, at(1, 3), &[], 3));
    assert!(!rig.groups[B].knows(id(C)) && !rig.groups[B].knows(id(4)));
    assert_eq!(rig.receive(B, C, stand(C, 7, at(6, 9))), []);
}

/// `B` has heard of nothing, and its vote is needed for a leader that it has not heard of.
#[test]
fn member_that_is_behind_hears_a_new_one_after_it_has_met_it() {
    let mut rig = led(&[A, B, C], &[]);
    let call = stand(D, 2, at(1, 3));
    assert_eq!(rig.receive(B, D, call.clone()), []);
    // An older configuration says nothing.
    rig.on(B, Event::Meet { at: Position::ZERO, members: ids(&[A, B, C, D]) });
    assert_eq!(rig.receive(B, D, call.clone()), []);
    rig.on(B, Event::Meet { at: at(1, 3), members: ids(&[A, B, C, D]) });
    rig.receive(B, D, call);
    assert_eq!(sent(&rig.sync(B)), [(id(D), vote(B, 2))]);
    // One that is told of an earlier one is heard, too: it may have what the others need.
    rig.on(B, Event::Meet { at: at(1, 2), members: ids(&[A, B, C, 4]) });
    rig.on(B, Event::Meet { at: at(1, 4), members: ids(&[A, B, C]) });
    assert!(rig.groups[B].knows(id(4)) && rig.groups[B].knows(id(D)));
    // It counts nowhere: a leader goes by its own log.
    assert_eq!(rig.groups[B].in_force().configuration, configuration(&[A, B, C], &[], &[]));
}

/// A store that was added has an empty log, and knows of its own place by what it was told.
#[test]
fn new_member_takes_entries_once_it_has_met_the_leader() {
    let mut rig = led(&[A, B, C], &[]);
    rig.append(A);
    let before = Placed::first(ids(&[A, B, C]));
    let mut group = Group::start(Config { before, ..rig::config(D) }, disk::Disk::new().crash(0), &mut vec![]);
    let receive = |group: &mut Group| {
        let mut out = vec![];
        let message = batch(A, 1, at(0, 0), &[1, 1], 1);
        group.on(Event::Receive { from: id(A), message }, &mut out);
        out
    };
    assert_eq!(receive(&mut group), []);
    let mut out = vec![];
    group.on(Event::Meet { at: at(1, 3), members: ids(&[A, B, C, D]) }, &mut out);
    assert!(receive(&mut group).iter().any(|command| matches!(command, Command::Write { entries: Some(_), .. })));
}

/// It is given the log from the beginning, with configurations that are over.
#[test]
fn empty_store_does_not_go_back_to_an_older_configuration() {
    let old = configuration(&[A, B], &[A, B, C], &[]);
    let before = Placed { at: at(1, 4), configuration: configuration(&[B, C], &[], &[D]) };
    let config = Config { before: before.clone(), ..rig::config(D) };
    let mut group = Group::start(config, disk::Disk::new().crash(0), &mut vec![]);
    let entries = [noraft::LogEntry::Term(Term::new(1)), noraft::LogEntry::ClusterConfig((&old).into())];
    let entries = Entries::from_iter(Position::ZERO, entries);
    let (from, term, commit_index) = (id(C).into(), Term::new(1), Index::new(2));
    let message = Message::Raft(noraft::Message::AppendEntriesCall { from, term, commit_index, entries });
    group.on(Event::Receive { from: id(C), message }, &mut vec![]);
    assert_eq!((group.last(), group.in_force(), group.settled()), (at(1, 2), &before, before.clone()));
    assert!(group.knows(id(D)) && !group.knows(id(A)));
}

#[test]
fn entry_of_the_only_voter_is_committed_when_it_is_synced() {
    let mut rig = led(&[A], &[B]);
    let out = rig.append(A);
    assert!(!out.contains(&Command::Logged { through: Index::new(2) }));
    let told = sent(&out).into_iter().find_map(|(_, message)| match message {
        Message::Raft(noraft::Message::AppendEntriesCall { commit_index, .. }) => Some(commit_index),
        _ => None,
    });
    assert_eq!(told, Some(Index::new(1)), "the batch goes at once, and does not call it committed");
    assert!(rig.sync(A).contains(&Command::Logged { through: Index::new(2) }));
}

/// After a crash it would lead in the same term again, with other entries.
#[test]
fn only_voter_sends_nothing_of_a_term_that_is_not_synced() {
    let mut rig = new(&[A], &[B]);
    let out = rig.tick(A, Timer::Election);
    assert_eq!((rig.groups[A].leads(), sent(&out)), (Some(Term::new(1)), vec![]));
    assert!(!sent(&rig.sync(A)).is_empty());
    assert_eq!(rig.groups[A].serving(), Some(Term::new(1)));
}

#[test]
fn answer_of_the_only_voter_leaves_at_once() {
    let mut rig = led(&[A], &[B]);
    let out = rig.on(A, Event::Hold { life: Term::new(1), answer: AnswerId(1) });
    assert!(out.contains(&Command::Release { answer: AnswerId(1) }), "{out:?}");
}

#[test]
fn group_of_one_becomes_one_of_three_and_back() {
    let mut rig = led(&[A], &[B, C]);
    change(&mut rig, A, &[A, B, C], &[]);
    rig.settle(&[A, B, C]);
    assert_eq!(rig.groups[C].in_force().configuration, configuration(&[A, B, C], &[], &[]));
    rig.append(A);
    assert!(!has_logged(&rig.settle(&[A]), A, 4), "it is not alone any more");
    rig.tick(A, Timer::Heartbeat);
    assert!(has_logged(&rig.settle(&[A, C]), A, 4));
    change(&mut rig, A, &[A], &[]);
    rig.settle(&[A, B, C]);
    assert_eq!(rig.groups[A].settled().configuration, configuration(&[A], &[], &[]));
    rig.append(A);
    assert!(has_logged(&rig.settle(&[A]), A, 7));
}

/// What the lost store has promised is bounded by the answers of those among whom it had a vote.
#[test]
fn answers_to_a_rejoining_store_count_if_no_change_is_under_way() {
    const NEW: MemberId = MemberId(42);
    let settled = Placed { at: at(1, 3), configuration: Configuration::of([id(A), id(B), NEW].into()) };
    let config = Config { me: NEW, before: settled, rejoins: Some(Rejoin::Asking), flaw: None };
    let mut group = Group::start(config, disk::Disk::new().crash(0), &mut vec![]);
    let mut hear = |from: usize, settled: Option<Position>| {
        let members = [id(A), id(B), NEW].into();
        let (term, last) = (Term::new(1), at(1, 3));
        let message = Message::RejoinAnswer { term, last, rejoins: false, members, settled };
        let mut out = vec![];
        group.on(Event::Receive { from: id(from), message }, &mut out);
        out
    };
    let promised = Promised { term: Term::new(1), last: at(1, 3) };
    assert_eq!(hear(A, Some(at(1, 3))), []);
    assert_eq!(hear(B, None), [], "a change is under way there");
    assert_eq!(hear(B, Some(at(1, 1))), [], "it has not heard of the last one");
    assert_eq!(hear(B, Some(at(1, 3))), [Command::Follow(promised)]);
}

#[test]
fn members_say_whether_a_change_is_under_way() {
    let said = |rig: &mut Rig, member: usize| {
        let out = rig.receive(member, C, Message::Rejoin);
        sent(&out).into_iter().find_map(|(_, message)| match message {
            Message::RejoinAnswer { settled, .. } => Some(settled),
            _ => None,
        })
    };
    let mut rig = four();
    assert_eq!(said(&mut rig, A), Some(Some(Position::ZERO)));
    change(&mut rig, A, &[A, B, C, D], &[]);
    rig.sync(A);
    assert_eq!(said(&mut rig, A), Some(None));
    rig.settle(&[A, B, C, D]);
    assert_eq!(said(&mut rig, A), Some(Some(at(1, 3))));
}
