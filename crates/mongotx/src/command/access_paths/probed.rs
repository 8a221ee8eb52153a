//! An answer behind its probes, which find the transactions with pending documents that matter.
//!
//! Without a mark, nothing relevant was pending when the answer began, so the safe versions are the
//! latest. With marks, the statuses of these transactions are read *after* the answer: if all are
//! active still, the safe versions were the latest then. Otherwise the answer is dropped.

use std::sync::Arc;

use bson::{Document, RawBsonRef, RawDocument, doc};
use protocol::{TxId, TxStatus};
use sd2v::{
    names::{UNSAFE, WRITER, tx_id_from_bson},
    view,
};

use crate::{
    command::query::documents::Documents,
    coordinator::{Core, catalog::WideProbes, request::query_options::QueryOptions},
    document,
    error::{ErrorKind, Result},
    options::Namespace,
};

/// Limit of transactions with pending documents that one command lists.
pub(crate) const MAX_WRITERS: usize = 90;

/// The `find` that answers the writers of pending documents, up to one more than are looked into.
pub(super) fn who_has_pending(ns: &Namespace, pending: &Document) -> Document {
    let most = MAX_WRITERS as i64 + 1;
    let shown = doc! {WRITER: 1, "_id": 0};
    doc! {
        "find": &ns.coll, "filter": pending.clone(), "projection": shown, "limit": most, "batchSize": most,
        "singleBatch": true,
    }
}

/// The answer's stages on `coll`, behind the probes: each a collection and the pending documents
/// that matter there. `None` when the options cannot be carried over: a hint would bind the first
/// part only.
pub(crate) fn command(
    coll: &str,
    probes: &[(&str, Document)],
    answer: Vec<Document>,
    options: &QueryOptions,
) -> Option<Document> {
    if options.hint.is_some() || options.variables.is_some() || options.find_only.is_some() {
        return None;
    }
    let nowhere = doc! {"_id": {"$in": []}};
    let (first, others) = match probes.split_first() {
        Some(((first, filter), others)) if *first == coll => (filter.clone(), others),
        _ => (nowhere, probes),
    };
    let mut pipeline = probe(first);
    for (other, filter) in others {
        pipeline.push(doc! {"$unionWith": {"coll": *other, "pipeline": probe(filter.clone())}});
    }
    pipeline.push(doc! {"$unionWith": {"coll": coll, "pipeline": answer}});
    let mut command = doc! {"aggregate": coll, "pipeline": pipeline, "cursor": {}, "allowDiskUse": true};
    options.add_to(&mut command);
    Some(command)
}

pub(crate) fn probe(pending: Document) -> Vec<Document> {
    let mark = doc! {UNSAFE: {"$literal": true}, WRITER: "$_id"};
    let mut stages = view::writers(pending);
    stages.extend([doc! {"$limit": MAX_WRITERS as i64 + 1}, doc! {"$replaceWith": mark}]);
    stages
}

/// The answer; `None` when something is pending that is decided, or when the server refuses to give
/// one: an expression may have failed on a version that is not the latest, behind a mark that did
/// not arrive. The long way finds out.
pub(crate) async fn ask_with_probe(
    core: &Core,
    ns: &Namespace,
    command: impl Into<Command>,
    me: Option<TxId>,
) -> Result<Option<Documents>> {
    let (sees, command) = (me.as_slice(), command.into());
    let answer = match unless_marked(core, ns, &command, sees).await {
        Ok(ProbedAnswer::MarkedByOwn(committed)) if core.finisher.has_left(ns) => {
            match core.finisher.finish_for_query(ns, committed).await {
                true => unless_decided(core, ns, &command, sees).await,
                false => Ok(ProbedAnswer::MarkedByOthers),
            }
        }
        answer => answer,
    };
    match answer {
        Ok(ProbedAnswer::Answered(answer)) => Ok(Some(*answer)),
        Ok(_) => Ok(None),
        Err(refused) if refused.kind() == ErrorKind::Invalid => Ok(None),
        Err(error) => Err(error),
    }
}

/// A query behind its probes.
pub(crate) struct Command {
    /// The command as one pipeline.
    pub(crate) piped: Document,
    /// As two `find`s, which the server carries out one after the other: which transactions have
    /// something pending, and the answer.
    pub(crate) apart: Option<[Document; 2]>,
    /// The same behind a look for the writers of everything that is pending in the collection. It
    /// is sent first.
    pub(super) behind_all: Option<(Box<Self>, Arc<WideProbes>)>,
}

impl Command {
    /// The same, but first as this pipeline, which is behind a look for all writers.
    pub(crate) fn first_behind(self, all: Document, looks: Arc<WideProbes>) -> Self {
        Self { behind_all: Some((Box::new(all.into()), looks)), ..self }
    }

    /// The pipeline, for an explanation.
    pub(crate) fn into_pipeline(self) -> Document {
        self.piped
    }
}

impl From<Document> for Command {
    fn from(piped: Document) -> Self {
        Self { piped, apart: None, behind_all: None }
    }
}

/// Answer of a probed command: whether a decided transaction has something pending before the
/// answer.
pub(super) enum ProbedAnswer {
    /// No decided transaction has: the answer.
    Answered(Box<Documents>),
    /// These transactions, which this client has committed.
    MarkedByOwn(Vec<TxId>),
    MarkedByOthers,
}

pub(super) async fn unless_marked(
    core: &Core,
    ns: &Namespace,
    command: &Command,
    sees: &[TxId],
) -> Result<ProbedAnswer> {
    if let Some((all, looks)) = &command.behind_all {
        let answer = match if_all_are_active(core, ns, all, sees).await {
            // A writer may be to blame that does not matter.
            Err(error) if error.kind() != ErrorKind::Unavailable => Ok(None),
            answer => answer,
        };
        looks.note(matches!(answer, Ok(Some(_))));
        if let Some(answer) = answer? {
            return Ok(ProbedAnswer::Answered(Box::new(answer)));
        }
    }
    unless_decided(core, ns, command, sees).await
}

/// The answer, if none of the writers before it is decided. (A decided one need not matter to the
/// query.)
async fn if_all_are_active(core: &Core, ns: &Namespace, command: &Command, sees: &[TxId]) -> Result<Option<Documents>> {
    let asked = match &command.apart {
        Some(apart) => ask_apart(core, ns, apart).await?,
        None => SeparateAnswers::NotSent,
    };
    let asked = match asked {
        SeparateAnswers::NotSent => ask_piped(core, ns, command.piped.clone()).await?,
        SeparateAnswers::TooMany => None,
        SeparateAnswers::Answered(writers, answer) => Some((writers, *answer)),
    };
    let Some((mut writers, mut answer)) = asked else { return Ok(None) };
    writers.retain(|writer| !sees.contains(writer));
    if writers.is_empty() {
        return Ok(Some(answer));
    }
    answer.peek().await?;
    Ok(core.log.are_active(&writers).await?.then_some(answer))
}

async fn unless_decided(core: &Core, ns: &Namespace, command: &Command, sees: &[TxId]) -> Result<ProbedAnswer> {
    let asked = match &command.apart {
        Some(apart) => ask_apart(core, ns, apart).await?,
        None => SeparateAnswers::NotSent,
    };
    let (writers, mut answer) = match asked {
        SeparateAnswers::Answered(writers, answer) => (writers, *answer),
        // The documents may be those of a few writers.
        SeparateAnswers::TooMany | SeparateAnswers::NotSent => {
            match ask_piped(core, ns, command.piped.clone()).await? {
                Some(asked) => asked,
                None => return Ok(ProbedAnswer::MarkedByOthers),
            }
        }
    };
    let writers: Vec<TxId> = writers.into_iter().filter(|writer| !sees.contains(writer)).collect();
    if writers.is_empty() {
        return Ok(ProbedAnswer::Answered(Box::new(answer)));
    }
    // The first documents of the answer are there, the others come later still.
    answer.peek().await?;
    let statuses = core.log.statuses(&writers).await?;
    let decided: Vec<(TxId, TxStatus)> =
        writers.into_iter().zip(statuses).filter(|(_, status)| *status != TxStatus::Active).collect();
    // Finished since: the next answer has it.
    let is_over = |status| matches!(status, TxStatus::Committed | TxStatus::Finished);
    let is_own = |(writer, status): &(TxId, TxStatus)| is_over(*status) && core.log.owns(writer.client);
    Ok(match decided.is_empty() {
        true => ProbedAnswer::Answered(Box::new(answer)),
        false if decided.iter().all(is_own) => {
            ProbedAnswer::MarkedByOwn(decided.into_iter().map(|(writer, _)| writer).collect())
        }
        false => ProbedAnswer::MarkedByOthers,
    })
}

/// The writers of what is pending, and the answer behind it. `None`: there are more of them than
/// are looked into.
async fn ask_piped(core: &Core, ns: &Namespace, command: Document) -> Result<Option<(Vec<TxId>, Documents)>> {
    let mut answer = Documents::streaming(core.server.cursor(&ns.db, command).await?);
    let mut writers = Vec::new();
    while let Some(mark) = answer.next_if(is_mark).await? {
        match document::parse(&mark)?.get(WRITER).and_then(tx_id_from_bson) {
            Some(writer) if writers.len() < MAX_WRITERS => writers.push(writer),
            _ => return Ok(None),
        }
    }
    Ok(Some((writers, answer)))
}

/// Answers of two commands in one write.
enum SeparateAnswers {
    /// The writers of what is pending, and the answer behind it.
    Answered(Vec<TxId>, Box<Documents>),
    /// The first one lists more documents, or writers, than are looked into.
    TooMany,
    /// The two commands cannot be sent together.
    NotSent,
}

/// Sends the probe and the answer as [`ask_piped`] does, by two commands.
async fn ask_apart(core: &Core, ns: &Namespace, [probe, answer]: &[Document; 2]) -> Result<SeparateAnswers> {
    let both = [(ns.db.as_str(), probe), (ns.db.as_str(), answer)];
    let Some(answers) = core.server.cursors_together(&both).await? else { return Ok(SeparateAnswers::NotSent) };
    let mut answers = answers.into_iter();
    let (Some(probe), Some(answer)) = (answers.next(), answers.next()) else { return Ok(SeparateAnswers::NotSent) };
    let (mut probe, mut writers, mut pending) = (probe?, Vec::new(), 0);
    while let Some(document) = probe.next().await? {
        pending += 1;
        match document::parse(&document)?.get(WRITER).and_then(tx_id_from_bson) {
            Some(writer) if pending <= MAX_WRITERS => writers.push(writer),
            _ => return Ok(SeparateAnswers::TooMany),
        }
    }
    writers.sort_unstable();
    writers.dedup();
    Ok(SeparateAnswers::Answered(writers, Box::new(Documents::streaming(answer?))))
}

fn is_mark(document: &RawDocument) -> bool {
    matches!(document.get(UNSAFE), Ok(Some(RawBsonRef::Boolean(true))))
}
