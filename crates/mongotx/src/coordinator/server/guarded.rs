//! The server process that may be sent updates which it has to refuse where the document is held
//! ([`sd2v::unheld`], decision 0047): a process that was seen to refuse them, for documents in
//! every state, and to change all others as they have to be changed.
//!
//! A connection leads to one process, which has sent its id when the connection began. The verdict
//! is about that process: another one, started later or elsewhere, is tried out anew.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bson::{DateTime, Document, doc, oid::ObjectId};
use sd2v::unheld::{MADE, Samples};

use super::{
    Server, WriteAnswer,
    lean::{Batch, Line},
};
use crate::{coordinator::stored::own_collections::GUARDS, document, error::Result};

/// Time after which a server is tried out again that did not do as it should, or did not answer.
const PAUSE: Duration = Duration::from_secs(60);
/// Documents that an interrupted client has left are removed after this time.
const LEFT_MS: i64 = 60 * 60 * 1_000;

/// The verdict about the server process that was tried out last.
#[derive(Default)]
pub(super) struct Trust {
    known: Mutex<Option<ProcessVerdict>>,
    is_asking: AtomicBool,
}

/// The verdict about one server process.
#[derive(Clone, Copy)]
struct ProcessVerdict {
    process: ObjectId,
    verdict: Verdict,
}

/// Verdict about the guarded updates of a server process.
#[derive(Clone, Copy)]
enum Verdict {
    /// The process refuses the guarded updates that it has to refuse, and no others.
    Trusted,
    /// The process does otherwise, or could not be asked. The verdict is valid until this time.
    Distrusted(Instant),
}

impl Trust {
    /// The verdict about this process. `None`: it has to be tried out.
    fn of(&self, process: ObjectId) -> Option<bool> {
        let known = self.known().filter(|known| known.process == process)?;
        match known.verdict {
            Verdict::Trusted => Some(true),
            Verdict::Distrusted(until) => (Instant::now() < until).then_some(false),
        }
    }

    fn note(&self, process: ObjectId, asked: Result<bool>) {
        let verdict = match asked {
            Ok(true) => Verdict::Trusted,
            Ok(false) => {
                tracing::warn!(
                    "the server does not refuse every update of a document that is held: updates by _id are sent with a filter"
                );
                Verdict::Distrusted(Instant::now() + PAUSE)
            }
            Err(error) => {
                tracing::debug!(%error, "the server could not be asked whether it refuses updates of documents that are held");
                Verdict::Distrusted(Instant::now() + PAUSE)
            }
        };
        *self.known() = Some(ProcessVerdict { process, verdict });
    }

    /// The right to try the server out, which one caller has at a time.
    fn begin(&self) -> Option<Asking<'_>> {
        (!self.is_asking.swap(true, SeqCst)).then_some(Asking(&self.is_asking))
    }

    /// No code panics while it holds this lock.
    fn known(&self) -> MutexGuard<'_, Option<ProcessVerdict>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a trial as under way. Dropping it ends the mark, also where the caller is interrupted.
struct Asking<'a>(&'a AtomicBool);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl Server {
    /// A connection of this library's own, where there are some, and whether guarded updates may be
    /// sent over it. `home`: the database of the records.
    pub(crate) async fn guarded_line(&self, home: &str) -> Result<Option<(Line<'_>, bool)>> {
        let Some(line) = self.line().await? else { return Ok(None) };
        let process = line.process().filter(|_| self.is_bound());
        let Some(process) = process else { return Ok(Some((line, false))) };
        if let Some(is_trusted) = self.trust.of(process) {
            return Ok(Some((line, is_trusted)));
        }
        let Some(_asking) = self.trust.begin() else { return Ok(Some((line, false))) };
        self.trust.note(process, ask(line, home).await);
        let Some(line) = self.line().await? else { return Ok(None) };
        let is_trusted = line.process().is_some_and(|process| self.trust.of(process) == Some(true));
        Ok(Some((line, is_trusted)))
    }
}

/// Returns true if the server at the other end refuses what it has to refuse, and nothing else.
async fn ask(mut line: Line<'_>, home: &str) -> Result<bool> {
    let now = DateTime::now();
    let samples = Samples::new(ObjectId::new(), now);
    let asked = try_out(&mut line, home, &samples).await;
    let old = DateTime::from_millis(now.timestamp_millis().saturating_sub(LEFT_MS));
    let gone = [doc! {"_id": {"$in": samples.ids()}}, doc! {MADE: {"$lt": old}}];
    let gone: Vec<Document> = gone.map(|q| doc! {"q": q, "limit": 0}).into();
    if let Err(error) = line.ask_aside(home, &doc! {"delete": GUARDS, "deletes": gone}).await {
        tracing::debug!(%error, "what the server was asked with stays in {home}.{GUARDS}");
    }
    asked
}

async fn try_out(line: &mut Line<'_>, home: &str, samples: &Samples) -> Result<bool> {
    let documents = samples.documents();
    let inserted = write(line, home, doc! {"insert": GUARDS, "documents": documents}).await?.ok()?;
    let mut is_right = inserted.n == documents.len() as i64;
    // The second time there is nothing left to change.
    for modified in [samples.free(), 0] {
        let update = doc! {"update": GUARDS, "updates": samples.updates(), "ordered": false};
        let answer = write(line, home, update).await?;
        let refused: Vec<usize> = answer.errors.iter().map(|(place, _)| *place).collect();
        let counts = (answer.n, answer.modified) == (samples.free() as i64, modified as i64);
        is_right &= counts && refused == samples.held() && answer.upserted.is_empty();
    }
    let many = documents.len() as i64 + 1;
    let find = doc! {"find": GUARDS, "filter": {"_id": {"$in": samples.ids()}}, "batchSize": many, "singleBatch": true};
    let answer = line.ask_aside(home, &find).await?;
    let batch = Batch::of(&answer, "firstBatch")?;
    let found: Vec<Document> = batch.documents().map(|one| document::parse(one?)).collect::<Result<_>>()?;
    Ok(is_right && samples.are_as_they_should_be(&found))
}

async fn write(line: &mut Line<'_>, home: &str, command: Document) -> Result<WriteAnswer> {
    WriteAnswer::parse_write(&document::parse(&line.ask_aside(home, &command).await?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn trust_is_in_the_process_that_was_asked_and_distrust_ends() {
        let (trust, one, other) = (Trust::default(), ObjectId::new(), ObjectId::new());
        assert_eq!(trust.of(one), None);
        trust.note(one, Ok(true));
        assert_eq!((trust.of(one), trust.of(other)), (Some(true), None));
        for asked in [Ok(false), Err(Error::new(ErrorKind::Unavailable, "gone"))] {
            trust.note(other, asked);
            assert_eq!((trust.of(one), trust.of(other)), (None, Some(false)));
        }
        let verdict = Verdict::Distrusted(Instant::now());
        *trust.known() = Some(ProcessVerdict { process: other, verdict });
        assert_eq!(trust.of(other), None);
    }

    #[test]
    fn one_asks_at_a_time_and_whoever_is_interrupted_makes_room() {
        let trust = Trust::default();
        let asking = trust.begin();
        assert!(asking.is_some() && trust.begin().is_none());
        drop(asking);
        assert!(trust.begin().is_some());
    }
}
