//! Which snapshots the stages of a server serve together.

use super::*;
use crate::server::event::{ReadFor, ToClient};
use crate::server::holding::Holding;
use crate::server::stages::read::ReadStage;
use crate::storage::{History, HistoryLimits};
use crate::wire::{Ask, Reply};

/// A read stage beside a transaction stage.
struct Reads {
    stage: ReadStage,
    asks: Inlet<ReadFor>,
    answers: Source<ToClient>,
}

impl Reads {
    fn beside(stage: &TransactionStage) -> Self {
        let ((asks, source), (to_clients, answers)) = (of(8), of(8));
        let history = Arc::new(History::new(HistoryLimits { window_ms: 1000, bytes: 1 << 20 }, Epoch(0)));
        let holding = Holding::new(ME, &stage.config.partition);
        let stats = Arc::clone(&stage.stats);
        let stage = ReadStage::new(Arc::clone(&stage.storage), history, holding, stats, source, to_clients.outlet());
        Self { stage, asks, answers }
    }

    /// The answer to a read of the smallest key at the end of an epoch.
    fn get_at(&mut self, epoch: u64) -> Reply {
        let ask = Ask::GetAt { epoch: Epoch(epoch), keys: vec![Key::smallest()] };
        let client = ClientId { incarnation: Incarnation(1), number: 1 };
        self.asks.offer(ReadFor { client, id: 1, ask }).map_err(drop).unwrap();
        self.stage.run(0).unwrap();
        let mut answers = Vec::new();
        self.answers.take(8, &mut answers);
        answers.pop().unwrap().response.reply
    }
}

/// Server 2 asks whether nothing has changed, and is in this epoch.
fn validate(epoch: u64) -> TranxEvent {
    let validation = ValidationId { server: OTHER, incarnation: Incarnation(1), number: 1 };
    let message = Message::Validate { validation, part: Transaction::default(), epoch: Epoch(epoch) };
    TranxEvent::Receive { from: OTHER, message }
}

/// Decision 0075, G13: the log of a leader that is cut off never answers.
#[test]
fn snapshot_is_not_served_before_the_log_has_the_epoch_after_it() {
    let (mut stage, asked) = transaction_stage(8);
    let mut reads = Reads::beside(&stage);
    stage.run(0).unwrap();
    asked.peers.offer(validate(1)).unwrap();
    stage.run(0).unwrap();
    let mut appended = Vec::new();
    asked.at_wal.take(8, &mut appended);
    let epochs = appended.iter().find(|append| matches!(append.record, Record::Epochs { .. })).unwrap();
    let refused = reads.get_at(0);
    assert!(matches!(&refused, Reply::Refused(why) if why.contains("before epoch 0")), "{refused:?}");
    asked.internal.offer(TranxEvent::Logged { through: epochs.ticket }).unwrap();
    stage.run(0).unwrap();
    assert_eq!(reads.get_at(0), Reply::Values(vec![None]));
}
