//! What the stage of the group knows of transfers of items: who lacks entries, and whether what a
//! leader sends is of its term and of any use. The rest is the stage `transfer`'s.

use super::{GroupStage, translate};
use crate::core::group::{Group, Index, MemberId};
use crate::log::{Position, State};
use crate::server::member_event::{FromTransfer, Transfer};
use crate::server::transfer::{TransferName, Whole};
use crate::wire::{MemberMessage, Piece};

impl GroupStage {
    /// A follower lacks entries that are removed here: it is given the items. What is kept of the
    /// log for others would not help it, so nothing is until it has got them.
    pub(super) fn give(&mut self, member: u8) {
        if let Some(term) = self.leads {
            self.lacking.entry(member).or_insert(None);
            if let Some((id, _)) = self.members.iter().find(|(_, number)| **number == member) {
                self.retention.forget(*id);
            }
            self.tell(Transfer::Lacks { member, term: term.get() });
        }
    }

    /// This member no longer leads in the term in which it did.
    pub(super) fn give_nothing(&mut self) {
        if !self.lacking.is_empty() {
            self.lacking.clear();
            self.tell(Transfer::Ended);
        }
    }

    /// A follower has acknowledged entries. It lacks none any more when it has all that may go now:
    /// from then on it is waited for like others.
    pub(super) fn note_reached(&mut self, member: u8, id: MemberId, now_ms: u64) {
        let (Some(machine), Some(from)) = (&self.machine, self.lacking.get(&member)) else { return };
        let index = machine.counted(id).get();
        let has_all = index >= from.unwrap_or(machine.beginning().get()).max(self.spare);
        if has_all {
            self.lacking.remove(&member);
            self.retention.acknowledged(id, now_ms);
        }
        self.tell(Transfer::Reached { member, index, has_all });
    }

    /// Takes what another member says of items. Any other message is returned.
    pub(super) fn hear_of_items(&self, from: u8, message: MemberMessage) -> Option<MemberMessage> {
        match message {
            MemberMessage::Piece(piece) => self.hear_piece(from, piece),
            MemberMessage::Taken { term, before, through } => {
                let name = TransferName { term, before };
                if self.leads.is_some_and(|leads| leads.get() == term) {
                    self.tell(Transfer::Taken { member: from, name, through });
                }
            }
            message => return Some(message),
        }
        None
    }

    /// A piece of a leader's items. It is not looked at if that leader's term is over (G2), or if
    /// this member has the entries by now.
    fn hear_piece(&self, from: u8, piece: Piece) {
        if self.lacks(TransferName { term: piece.term, before: piece.before }) {
            self.tell(Transfer::Piece { from, piece });
        }
    }

    /// The stage `transfer` has said something.
    pub(super) fn hear_of_transfer(&mut self, event: FromTransfer) -> Result<(), String> {
        match event {
            FromTransfer::Begun { member, from } => {
                if self.leads.is_some() {
                    self.lacking.insert(member, Some(from));
                }
            }
            FromTransfer::Over { member } => {
                self.lacking.remove(&member);
            }
            FromTransfer::Whole { name, gc_payload, configured } => {
                let Some(state) = self.machine.as_ref().map(Group::state).filter(|_| self.lacks(name)) else {
                    return Ok(());
                };
                // The last term and vote that it has sent go along, and it sends no later ones.
                let vote = state.vote.map(|member| member.0);
                let state = State { term: state.term, vote, committed: state.committed };
                let whole = Whole { before: name.before, configured, gc_payload, state };
                // The thread that waits for it starts this member anew.
                return match self.whole.send(whole) {
                    Ok(()) => Err("this member goes on with the items of its leader".to_owned()),
                    Err(_) => Err("nobody waits for the items of the leader".to_owned()),
                };
            }
        }
        Ok(())
    }

    /// Returns true if this member follows in the term of a transfer, and lacks what it gives.
    fn lacks(&self, name: TransferName) -> bool {
        let Position { term, index } = name.before;
        let is_plausible = index < crate::wire::GREATEST && term <= name.term;
        let lacks = |machine: &Group| machine.term().get() == name.term && machine.lacks(translate::place(name.before));
        is_plausible && Index::new(index) > Index::ZERO && self.machine.as_ref().is_some_and(lacks)
    }

    /// Sends an event to the transfer stage. An event that the stage cannot take now comes again.
    fn tell(&self, event: Transfer) {
        drop(self.outlets.transfer.offer(event));
    }
}
