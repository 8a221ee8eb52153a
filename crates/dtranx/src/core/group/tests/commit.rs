//! What counts as committed, and when a node hears of it (G1, G17).

use super::*;

fn logged(out: &[Command]) -> Vec<u64> {
    let through = |command: &Command| match command {
        Command::Logged { through } => Some(through.get()),
        _ => None,
    };
    out.iter().filter_map(through).collect()
}

/// The committed index that each batch to this member tells.
fn told(rig: &Rig, to: usize) -> Vec<u64> {
    let committed = |post: &(usize, usize, Message)| match &post.2 {
        Message::Raft(noraft::Message::AppendEntriesCall { commit_index, .. }) if post.1 == to => {
            Some(commit_index.get())
        }
        _ => None,
    };
    rig.mail.iter().filter_map(committed).collect()
}

#[test]
fn own_sync_alone_commits_nothing() {
    let mut rig = Rig::led();
    rig.append(A);
    assert_eq!(logged(&rig.sync(A)), [0; 0]);
    rig.deliver(A, B);
    assert_eq!(logged(&rig.deliver(B, A)), [0; 0], "b has not synced it");
    rig.sync(B);
    assert_eq!(logged(&rig.deliver(B, A)), [2]);
}

#[test]
fn leaders_own_entry_counts_once_it_is_synced() {
    let mut rig = Rig::led();
    rig.append(A);
    // c is down, and b has the entry on its disk.
    rig.deliver(A, B);
    rig.sync(B);
    assert_eq!(logged(&rig.deliver(B, A)), [0; 0]);
    rig.mail.clear();
    rig.tick(A, Timer::Heartbeat);
    assert_eq!(told(&rig, B), [1], "b is told that the entry is committed");
    assert_eq!(logged(&rig.sync(A)), [2]);
    rig.tick(A, Timer::Heartbeat);
    assert_eq!(told(&rig, B), [1, 2]);
}

#[test]
fn entry_that_the_leader_loses_was_not_called_committed() {
    let mut rig = Rig::led();
    rig.append(A);
    rig.deliver(A, B);
    rig.sync(B);
    rig.deliver(B, A);
    rig.tick(A, Timer::Heartbeat);
    let applied = rig.deliver(A, B).into_iter().any(|command| matches!(command, Command::Apply { .. }));
    assert!(!applied);
    rig.crash(A, 0);
    rig.mail.clear();
    rig.elect_among(A, &[A, C]);
    rig.tick(A, Timer::Heartbeat);
    rig.settle(&[A, B, C]);
    assert_eq!(rig.disks[A].durable().entries, rig.disks[B].durable().entries);
    assert!(rig.disks[A].has(at(2, 2)), "the entry is another one now");
}

#[test]
fn acknowledgement_counts_as_far_as_the_leader_has_synced() {
    let mut rig = Rig::led();
    rig.append(A);
    rig.sync(A);
    rig.append(A);
    rig.deliver(A, B);
    rig.sync(B);
    assert_eq!(logged(&rig.deliver(B, A)), [2], "the first of two counts");
    assert_eq!(logged(&rig.sync(A)), [3], "and the second after the leader's sync, without another word");
}

#[test]
fn acknowledged_entries_are_not_sent_again() {
    let mut rig = Rig::led();
    rig.append(A);
    rig.sync(A);
    rig.append(A);
    rig.deliver(A, B);
    rig.sync(B);
    rig.deliver(B, A);
    assert_eq!(told(&rig, B), [0; 0], "the leader sends what b has");
}

/// The third leader's log, and what a follower says that has another suffix.
fn with_conflict() -> Rig {
    let mut rig = Rig::with([(1, 1, &[1, 1, 1, 1]), (1, 1, &[1]), (1, 1, &[1])]);
    rig.elect_among(B, &[B, C]);
    for _ in 0..3 {
        rig.append(B);
    }
    // C hears of none of the last three.
    rig.sync(B);
    rig.mail.clear();
    rig
}

fn says(rig: &mut Rig, last_position: Position) -> Vec<Command> {
    let from = id(A).into();
    let term = rig.groups[B].term();
    let reply = noraft::Message::AppendEntriesReply { from, term, last_position };
    rig.receive(B, A, Message::Raft(reply))
}

#[test]
fn acknowledgement_of_a_conflicting_suffix_counts_nothing() {
    let mut rig = with_conflict();
    assert_eq!(logged(&says(&mut rig, at(1, 4))), [0; 0]);
    assert_eq!(logged(&says(&mut rig, at(2, 4))), [4], "the same index of the leader's own term");
}

#[test]
fn acknowledgement_of_a_conflicting_suffix_counts_nothing_after_a_sync() {
    let mut rig = with_conflict();
    rig.append(B);
    rig.mail.clear();
    assert_eq!(logged(&says(&mut rig, at(1, 6))), [0; 0]);
    assert_eq!(logged(&rig.sync(B)), [0; 0]);
}
