//! Messages that tell of a term or a vote: they leave when that is synced (G3).

use super::{
    event::Command,
    id::{MemberId, WriteId},
    message::Message,
};

/// Messages that wait for a write, at most one of each kind for each member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Outbox {
    waiting: Vec<(WriteId, MemberId, Message)>,
}

impl Outbox {
    /// Sends a message after this write. A message of the same kind to the same member that still
    /// waits is out of date, and is dropped.
    pub(super) fn send(&mut self, after: WriteId, to: MemberId, message: Message) {
        self.waiting.retain(|(_, other, waiting)| *other != to || kind(waiting) != kind(&message));
        self.waiting.push((after, to, message));
    }

    /// Lets what waited for no later write than this leave.
    pub(super) fn leave(&mut self, synced: WriteId, out: &mut Vec<Command>) {
        let (leaving, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(after, ..)| *after <= synced);
        self.waiting = waiting;
        let leaving: Vec<(WriteId, MemberId, Message)> = leaving;
        out.extend(leaving.into_iter().map(|(_, to, message)| Command::Send { to, message }));
    }
}

fn kind(message: &Message) -> u8 {
    match message {
        Message::Raft(noraft::Message::RequestVoteCall { .. }) => 0,
        Message::Raft(noraft::Message::RequestVoteReply { .. }) => 1,
        Message::Raft(noraft::Message::AppendEntriesCall { .. }) => 2,
        Message::Raft(noraft::Message::AppendEntriesReply { .. }) => 3,
        Message::Round { .. } => 4,
        Message::Confirm { .. } => 5,
        Message::Ask { .. } => 6,
        Message::Would { .. } => 7,
        Message::Rejoin => 8,
        Message::RejoinAnswer { .. } => 9,
    }
}
