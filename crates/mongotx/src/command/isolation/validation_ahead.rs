//! Validation ahead of the commit (decision 0061): behind an insert with which the transaction
//! probably ends, the same write carries all of the transaction's reads again, and a look at the
//! change stamps behind them. The server carries them out in this order, so the reads run with all
//! locks held, as at the commit.
//!
//! This validation counts at the commit if the insert was the transaction's last write, nothing was
//! read behind it, and the commit comes soon. Otherwise the commit reads again.

use std::time::Instant;

use bson::Document;

use super::validation::Validation;
use crate::{
    coordinator::{
        Core,
        request::fields::Fields,
        server::live::LedWrite,
        stamps::tag::Tags,
        transaction::{ExpectedEvent, Transaction, ValidationAhead},
        validating::{looks::FirstLook, unchanged::LookBehind},
    },
    error::Result,
    options::Namespace,
};

/// Limit of documents that a transaction has read, all reads together, for validation ahead: the
/// answer to the insert comes with the answers to all reads behind it.
const MOST_DOCUMENTS: u64 = 128;

/// The look before reads behind an insert, and the stamps that it compares.
struct LookAhead {
    first: FirstLook,
    stamps: Tags,
}

/// Sends a prepared write that inserts, and `questions` behind it. If the commit is expected to be
/// next, the transaction's reads are sent again behind them, in the same write.
pub(crate) async fn send_insert(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: Document,
    questions: Vec<Document>,
) -> Result<LedWrite> {
    tx.note_next(false);
    let look = look_ahead(core, tx, ns);
    let expected = tx.expected.take();
    let answer = match look {
        Some(look) => send_and_ask(core, tx, ns, command, questions, look).await,
        None if questions.is_empty() => {
            core.server.send_prepared(tx, ns, command, &Fields::All).await.map(LedWrite::unasked)
        }
        None => {
            let leading = core.server.lead(tx, ns, command, questions).await;
            core.server.led(tx, leading).await
        }
    };
    tx.expected = expected;
    answer
}

async fn send_and_ask(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: Document,
    questions: Vec<Document>,
    look: LookAhead,
) -> Result<LedWrite> {
    let validation = Validation::of(core);
    let baseline = validation.read_baseline(tx).await;
    let (mut leading, asked) = (core.server.lead(tx, ns, command, questions).await, Instant::now());
    let behind = validation.ask_behind(tx, baseline.as_ref(), &mut leading).await;
    let led = core.server.led(tx, leading).await?;
    let is_unchanged =
        |behind: &LookBehind| validation.is_still_unchanged(baseline.as_ref(), &behind.unasked, &behind.later);
    if led.answer.errors.is_empty() {
        tx.ahead = behind.filter(is_unchanged).and_then(|behind| look.conclude(tx, &behind, asked));
    }
    Ok(led)
}

/// The look before the reads behind the insert that is about to be sent; `None`: no reads are sent
/// behind it. A transaction validates ahead if others of this client wait for it, or if it is the
/// only one: for the rest, looks at the commit are shared.
fn look_ahead(core: &Core, tx: &mut Transaction, ns: &Namespace) -> Option<LookAhead> {
    let validates = tx.validates() && !tx.is_serializable() && !tx.reads.is_empty();
    if !validates || !core.server.is_bound() || !(tx.is_wanted() || tx.is_alone()) {
        return None;
    }
    let guess = core.forecast.after(ns, tx.reads.count(), tx.count_held());
    let is_expected = guess.is_commit();
    tx.expected = Some(ExpectedEvent { guess, reads: tx.reads.changes() });
    if !is_expected || tx.reads_one_moment() || tx.reads.documents() > MOST_DOCUMENTS {
        return None;
    }
    // What is read on behind the validation would not be validated. Nobody says when that is.
    if !tx.reads.are_complete() {
        return None;
    }
    let stamps = tx.stamps_of_reads();
    Some(LookAhead { first: core.looks.remembered_look(tx, &stamps)?, stamps })
}

impl LookAhead {
    /// The later look was sent behind the reads, which were sent at `asked` and answered as before.
    /// The first look, and the stamps that this client has acknowledged since, are of the time
    /// before: a decision between reads and look would be hidden by later ones.
    fn conclude(&self, tx: &Transaction, behind: &LookBehind, asked: Instant) -> Option<ValidationAhead> {
        let mut changed = self.first.changed_at(&behind.later, &self.stamps)?;
        // Collections that were not read again have been the same all the time.
        changed.retain(|tag| behind.asked.contains(tag));
        tx.is_of_one_moment(&changed).then(|| ValidationAhead { asked, reads: tx.reads.changes() })
    }
}
