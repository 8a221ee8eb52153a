//! The records that were appended and are not known to be durable, with the work that waits for
//! each; and the state that coordinator and participant share while they handle an event.

use std::collections::{BTreeMap, VecDeque};

use super::{
    config::NodeConfig,
    epochs::Epochs,
    event::Command,
    id::{Epoch, LogTicket, RequestId, ServerId, TranxId},
    joining::Joining,
    machine::{Event, Outbox},
    map::Maps,
    marks::Marks,
    message::Message,
    record::Record,
    standing::Standing,
    transaction::Transaction,
};

/// Work that goes on when a record is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    /// Numbers up to this one may be used.
    Reserve(u64),
    /// The participant applies the writes of a transaction with one participant.
    OnePhase(TranxId),
    /// The participant votes yes.
    Ready(TranxId),
    /// The coordinator answers its client.
    Commit(TranxId),
    /// The participant acknowledges the outcome.
    Outcome(TranxId),
    /// The participant answers its peers.
    Promise(TranxId),
    /// Epochs up to this one may be entered.
    Epochs(Epoch),
    /// The garbage collection goes by the marks.
    Marks,
}

/// The end of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Journal {
    last: LogTicket,
    waits: BTreeMap<LogTicket, Wait>,
    pub(crate) marks: Marks,
}

/// Calls between a server's own coordinator and participant, instead of messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Local {
    /// A message of this server to itself, handled as if it had come from another server.
    Message(Message),
    /// To the participant: this server holds all keys of the transaction.
    OnePhase { tranx: TranxId, request: RequestId, part: Transaction, standing: Standing },
}

/// State that coordinator and participant share while they handle an event.
pub(crate) struct Context<'a> {
    pub(crate) now_ms: u64,
    pub(crate) config: &'a NodeConfig,
    pub(crate) journal: &'a mut Journal,
    pub(crate) epochs: &'a mut Epochs,
    /// Maps of the keys, as this server knows them.
    pub(crate) maps: &'a mut Maps,
    pub(crate) joining: &'a mut Joining,
    pub(crate) local: &'a mut VecDeque<Local>,
    pub(crate) out: &'a mut Outbox,
}

impl Journal {
    /// Notes that everything up to and with `through` is durable. Returns the work that waited for
    /// it, in the order of the records.
    pub(crate) fn logged(&mut self, through: LogTicket) -> Vec<Wait> {
        let later = self.waits.split_off(&LogTicket(through.0.saturating_add(1)));
        std::mem::replace(&mut self.waits, later).into_values().collect()
    }
}

impl Context<'_> {
    /// Appends a record. `durable`: something waits until it is.
    pub(crate) fn log(&mut self, record: Record, durable: bool, wait: Option<Wait>) {
        let ticket = LogTicket(self.journal.last.0 + 1);
        self.journal.last = ticket;
        if let Some(wait) = wait {
            self.journal.waits.insert(ticket, wait);
        }
        self.out.commands.push(Command::Log { ticket, record, durable });
    }

    /// This turn's time of the wall clock, in milliseconds since 1970.
    pub(crate) fn time_ms(&self) -> u64 {
        self.config.epoch_ms.saturating_add(self.now_ms)
    }

    /// Sends an event to another machine of this server.
    pub(crate) fn event(&mut self, event: Event) {
        self.out.events.push(event);
    }

    /// Sends a message, to this server itself too.
    pub(crate) fn tell(&mut self, to: ServerId, message: Message) {
        if to == self.config.me {
            self.local.push_back(Local::Message(message));
        } else {
            self.out.commands.push(Command::Send { to, message });
        }
    }
}
