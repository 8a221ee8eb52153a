//! Messages of the machine, as they travel, and back. What no member can have said is dropped.

use std::collections::BTreeMap;

use bytes::Bytes;
use noraft::{ClusterConfig, LogEntry, NodeId};

use super::batches::Call;
use crate::core::group::{Entries, Index, MemberId, Message, Position, Term};
use crate::log;
use crate::wire::{GREATEST, MemberMessage};

/// Payloads of the entries in a batch, by index, with their terms.
pub(super) type Payloads = BTreeMap<u64, (u64, Bytes)>;

/// A message of the machine, as it is to be sent.
pub(super) enum Outgoing {
    /// Entries are to be found for it.
    Batch(Call),
    Message(MemberMessage),
}

pub(super) fn spell(message: Message, is_full: bool) -> Outgoing {
    Outgoing::Message(match message {
        Message::Raft(noraft::Message::AppendEntriesCall { term, commit_index, entries, .. }) => {
            return Outgoing::Batch(Call { term: term.get(), committed: commit_index.get(), entries });
        }
        Message::Raft(noraft::Message::AppendEntriesReply { term, last_position, .. }) => {
            MemberMessage::Acknowledge { term: term.get(), last: spelled(last_position), is_full }
        }
        Message::Raft(noraft::Message::RequestVoteCall { term, last_position, .. }) => {
            MemberMessage::Stand { term: term.get(), last: spelled(last_position) }
        }
        Message::Raft(noraft::Message::RequestVoteReply { term, vote_granted, .. }) => {
            MemberMessage::Vote { term: term.get(), is_granted: vote_granted }
        }
        Message::Round { term, number } => MemberMessage::Round { term: term.get(), number },
        Message::Confirm { term, number } => MemberMessage::Confirm { term: term.get(), number },
        Message::Ask { term, last } => MemberMessage::Ask { term: term.get(), last: spelled(last) },
        Message::Would { term, asked, grants } => {
            MemberMessage::Would { term: term.get(), asked: asked.get(), is_granted: grants }
        }
        Message::Rejoin => MemberMessage::Rejoin,
        Message::RejoinAnswer { term, last, rejoins, members, settled } => {
            let members = members.into_iter().map(|member| member.0).collect();
            let (last, settled) = (spelled(last), settled.map(spelled));
            MemberMessage::RejoinAnswer { term: term.get(), last, is_rejoining: rejoins, members, settled }
        }
    })
}

/// A message of another member, for the machine, and the payloads that came along. `None`: no
/// member says that, or it is none of the machine's. `configuration` reads the configuration in an
/// entry that is one.
pub(super) fn understand(
    from: MemberId,
    message: MemberMessage,
    mut configuration: impl FnMut(&[u8]) -> Option<ClusterConfig>,
) -> Option<(Message, Payloads)> {
    let (from, mut payloads) = (NodeId::from(from), Payloads::new());
    let message = match message {
        MemberMessage::Spare { .. } | MemberMessage::Told(_) => return None,
        MemberMessage::Batch { term, committed, before, entries: sent } => {
            let mut entries = Entries::new(place(before));
            for entry in sent {
                let last = entries.last_position();
                let is_said =
                    last.index.get() < GREATEST && (last.term.get()..=term.min(GREATEST)).contains(&entry.term);
                if !is_said || !log::is_payload(&entry.payload) {
                    return None;
                }
                let term = Term::new(entry.term);
                entries.push(match log::configuration(&entry.payload) {
                    // The first entry of a term is none.
                    Some(_) if last.term != term => return None,
                    Some(bytes) => LogEntry::ClusterConfig(configuration(bytes)?),
                    None if last.term == term => LogEntry::Command,
                    None => LogEntry::Term(term),
                });
                payloads.insert(last.index.get() + 1, (entry.term, entry.payload));
            }
            let (term, commit_index) = (Term::new(term), Index::new(committed));
            Message::Raft(noraft::Message::AppendEntriesCall { from, term, commit_index, entries })
        }
        MemberMessage::Acknowledge { term, last, .. } => {
            let (term, last_position) = (Term::new(term), place(last));
            Message::Raft(noraft::Message::AppendEntriesReply { from, term, last_position })
        }
        MemberMessage::Stand { term, last } => {
            let (term, last_position) = (Term::new(term), place(last));
            Message::Raft(noraft::Message::RequestVoteCall { from, term, last_position })
        }
        MemberMessage::Vote { term, is_granted } => {
            let (term, vote_granted) = (Term::new(term), is_granted);
            Message::Raft(noraft::Message::RequestVoteReply { from, term, vote_granted })
        }
        MemberMessage::Round { term, number } => Message::Round { term: Term::new(term), number },
        MemberMessage::Confirm { term, number } => Message::Confirm { term: Term::new(term), number },
        MemberMessage::Ask { term, last } => Message::Ask { term: Term::new(term), last: place(last) },
        MemberMessage::Would { term, asked, is_granted } => {
            Message::Would { term: Term::new(term), asked: Term::new(asked), grants: is_granted }
        }
        MemberMessage::Rejoin => Message::Rejoin,
        MemberMessage::RejoinAnswer { term, last, is_rejoining, members, settled } => {
            let (members, settled) = (members.into_iter().map(MemberId).collect(), settled.map(place));
            Message::RejoinAnswer { term: Term::new(term), last: place(last), rejoins: is_rejoining, members, settled }
        }
        // The machine knows nothing of items.
        MemberMessage::Piece(_) | MemberMessage::Taken { .. } => return None,
    };
    Some((message, payloads))
}

/// The entries of a log, for the machine.
pub(super) fn entries(outline: &log::Outline) -> Entries {
    let mut entries = Entries::new(place(outline.before));
    let mut runs = outline.runs.iter().peekable();
    for index in outline.before.index + 1..=outline.last.index {
        entries.push(match runs.next_if(|run| run.index == index) {
            Some(run) => LogEntry::Term(Term::new(run.term)),
            None => LogEntry::Command,
        });
    }
    entries
}

pub(super) fn place(position: log::Position) -> Position {
    Position { term: Term::new(position.term), index: Index::new(position.index) }
}

pub(super) fn spelled(position: Position) -> log::Position {
    log::Position { term: position.term.get(), index: position.index.get() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::BatchEntry;

    const FROM: MemberId = MemberId(7);

    fn at(term: u64, index: u64) -> log::Position {
        log::Position { term, index }
    }

    fn batch(term: u64, before: log::Position, terms: &[u64]) -> MemberMessage {
        let entries = terms.iter().map(|term| BatchEntry { term: *term, payload: Bytes::new() }).collect();
        MemberMessage::Batch { term, committed: 3, before, entries }
    }

    #[test]
    fn messages_are_understood_as_they_are_said() {
        let last = at(2, 5);
        let messages = [
            MemberMessage::Acknowledge { term: 3, last, is_full: true },
            MemberMessage::Stand { term: 3, last },
            MemberMessage::Vote { term: 3, is_granted: true },
            MemberMessage::Round { term: 3, number: 4 },
            MemberMessage::Confirm { term: 3, number: 4 },
            MemberMessage::Ask { term: 3, last },
            MemberMessage::Would { term: 3, asked: 4, is_granted: false },
            MemberMessage::Rejoin,
            MemberMessage::RejoinAnswer { term: 3, last, is_rejoining: true, members: vec![4, 5], settled: Some(last) },
            MemberMessage::RejoinAnswer { term: 3, last, is_rejoining: false, members: vec![4], settled: None },
        ];
        for said in messages {
            let Some((message, _)) = understand(FROM, said.clone(), |_| None) else { panic!("{said:?}") };
            let Outgoing::Message(spelled) = spell(message, true) else { panic!("{said:?}") };
            assert_eq!(spelled, said);
        }
    }

    #[test]
    fn batch_is_understood_with_the_terms_and_payloads_of_its_entries() {
        let Some((message, payloads)) = understand(FROM, batch(4, at(2, 5), &[2, 2, 4]), |_| None) else {
            panic!("refused")
        };
        let Message::Raft(noraft::Message::AppendEntriesCall { entries, .. }) = &message else { panic!("{message:?}") };
        let terms: Vec<_> = (6..=8).map(|index| entries.get_term(Index::new(index)).map(Term::get)).collect();
        assert_eq!(terms, [Some(2), Some(2), Some(4)]);
        assert_eq!(
            payloads.into_iter().map(|(index, (term, _))| (index, term)).collect::<Vec<_>>(),
            [(6, 2), (7, 2), (8, 4)]
        );
        let Outgoing::Batch(call) = spell(message, false) else { panic!("no batch") };
        assert_eq!((call.term, call.committed, call.entries.len()), (4, 3, 3));
    }

    #[test]
    fn batch_that_no_leader_sends_is_dropped() {
        let bad = [
            batch(4, at(2, 5), &[1]),
            batch(4, at(2, 5), &[5]),
            batch(4, at(2, 5), &[3, 2]),
            batch(4, at(2, GREATEST), &[2]),
            MemberMessage::Batch {
                term: 4,
                committed: 0,
                before: at(2, 5),
                entries: vec![BatchEntry { term: 2, payload: Bytes::from_static(b"\x05\0\0\0cut") }],
            },
        ];
        for message in bad {
            assert!(understand(FROM, message.clone(), |_| None).is_none(), "{message:?}");
        }
    }

    #[test]
    fn configuration_in_a_batch_is_an_entry_of_its_own_kind_and_not_the_first_of_a_term() {
        let payload = Bytes::from(log::configuration_payload(b"members"));
        let batch = |term| MemberMessage::Batch {
            term: 4,
            committed: 3,
            before: at(2, 5),
            entries: vec![BatchEntry { term, payload: payload.clone() }],
        };
        let mut config = ClusterConfig::new();
        config.voters.insert(NodeId::new(9));
        let understood = |bytes: &[u8]| (bytes == b"members").then(|| config.clone());
        let Some((Message::Raft(message), payloads)) = understand(FROM, batch(2), understood) else {
            panic!("refused")
        };
        let noraft::Message::AppendEntriesCall { entries, .. } = message else { panic!("{message:?}") };
        assert_eq!(entries.get_entry(Index::new(6)), Some(LogEntry::ClusterConfig(config.clone())));
        assert_eq!(payloads[&6], (2, payload.clone()));
        assert!(understand(FROM, batch(3), understood).is_none());
        assert!(understand(FROM, batch(2), |_| None).is_none(), "no group has such members");
    }

    #[test]
    fn entries_of_a_log_have_the_terms_of_their_runs() {
        let outline = log::Outline {
            before: at(1, 3),
            runs: vec![at(2, 5), at(4, 6)],
            last: at(4, 8),
            committed: 4,
            configurations: vec![],
        };
        let entries = entries(&outline);
        let terms: Vec<_> = (4..=8).map(|index| entries.get_term(Index::new(index)).map(Term::get)).collect();
        assert_eq!(terms, [1, 2, 4, 4, 4].map(Some));
        assert_eq!(spelled(entries.last_position()), at(4, 8));
    }
}
