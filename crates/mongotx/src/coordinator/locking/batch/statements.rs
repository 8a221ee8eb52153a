//! The statements of a command of several prepared writes: one for all of them, one for each, or
//! two for each. Pure: nothing is sent.

use bson::RawDocumentBuf;
use protocol::TxId;
use sd2v::filter::Exact;

use super::{BatchedAction, BatchedChange, BatchedWrite, StatementForm};
use crate::{
    coordinator::{
        locking::{
            batch_answer::{SentStatements, StatementKind},
            change::Change,
            merged_statement::{MergedUpdate, one_statement},
            returning_write::{statement_of, taken_over},
        },
        read_set::as_read::Demanded,
        siblings::Claim,
    },
    error::Result,
};

/// Limit of the bytes of statements in one command.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Questions about keys of unique indexes, behind the statements of a change in the same command.
#[derive(Clone, Default)]
pub(super) struct KeyQuestions {
    /// The change may give the document other keys of unique indexes.
    pub(super) is_rekeyed: bool,
    /// The questions which other document has these keys.
    pub(super) questions: Vec<RawDocumentBuf>,
}

impl KeyQuestions {
    pub(super) fn is_nothing(&self) -> bool {
        !self.is_rekeyed && self.questions.is_empty()
    }
}

/// The statements for one document.
pub(super) struct Statements {
    kind: StatementKind,
    pub(super) is_rekeyed: bool,
    questions: usize,
    pub(super) all: Vec<RawDocumentBuf>,
}

impl Statements {
    fn new(kind: StatementKind, mut all: Vec<RawDocumentBuf>, behind: &KeyQuestions) -> Self {
        all.extend(behind.questions.iter().cloned());
        Self { kind, is_rekeyed: behind.is_rekeyed, questions: behind.questions.len(), all }
    }

    /// No statements: the one statement of all documents names this one.
    pub(super) fn in_one() -> Self {
        Self { kind: StatementKind::Fused, is_rekeyed: false, questions: 0, all: Vec::new() }
    }

    pub(super) fn sent(&self) -> SentStatements {
        SentStatements { kind: self.kind, questions: self.questions }
    }
}

/// The statements that lock and change the documents.
pub(super) struct BatchPlan {
    /// Statements of each document; none, where the one statement stands for them.
    pub(super) each: Vec<Statements>,
    /// The one statement that names all documents, if there is one.
    pub(super) one: Option<RawDocumentBuf>,
    /// There are no more of them because the command is full.
    pub(super) is_full: bool,
}

/// The statements for these documents, with what has to stand `behind` each: one for all of them if
/// there `may_be_one`, one for each, or two for each, if one needs two.
pub(super) fn plan_batch(
    all: &[BatchedWrite<'_>],
    behind: &[KeyQuestions],
    me: TxId,
    form: StatementForm,
    may_be_one: bool,
) -> Result<BatchPlan> {
    if may_be_one
        && behind.iter().all(KeyQuestions::is_nothing)
        && let Some(one) = one_statement(&mergeable_updates(all), me, &[])
    {
        let each = all.iter().map(|_| Statements::in_one()).collect();
        return Ok(BatchPlan { each, one: Some(one), is_full: false });
    }
    let short = match form {
        StatementForm::Short | StatementForm::Apart => short_statements(all, behind, me)?,
        StatementForm::InTwo => None,
    };
    let mut room = Room::default();
    let statements: Vec<Statements> = match short {
        Some(short) => short,
        None => {
            let in_two = all.iter().zip(behind).map_while(|(each, behind)| in_two(each, behind, me).ok().flatten());
            in_two.take_while(|statements| room.takes(statements)).collect()
        }
    };
    Ok(BatchPlan { is_full: statements.len() < all.len(), each: statements, one: None })
}

/// If a committed transaction may have left the document, makes its statement take it over. Returns
/// that transaction if the document has to be finished before.
pub(super) fn take_over_batched(
    statements: &mut Statements,
    BatchedChange { target, change, as_read }: &BatchedChange<'_>,
    me: TxId,
    claim: Option<&Claim<'_>>,
) -> Result<Option<TxId>> {
    // What it takes over becomes the safe version, with other keys perhaps: of those the server has
    // to be asked apart.
    match (statements.kind, statements.all.as_mut_slice()) {
        (StatementKind::Fused | StatementKind::Remove, [statement]) if !statements.is_rekeyed => {
            taken_over(statement, target, change, me, claim, conditions_of(as_read.as_ref()))
        }
        _ => Ok(claim.and_then(Claim::left)),
    }
}

/// The updates, if all of them are updates that a statement of several documents may make.
pub(super) fn mergeable_updates<'a>(all: &'a [BatchedWrite<'_>]) -> Vec<MergedUpdate<'a>> {
    let one = |each: &'a BatchedWrite<'_>| {
        let BatchedAction::Change(BatchedChange {
            target,
            change: Change::Update { update, array_filters: None },
            as_read,
        }) = &each.action
        else {
            return None;
        };
        Some(MergedUpdate { target, update, as_read: conditions_of(as_read.as_ref()) })
    };
    all.iter().map(one).collect::<Option<_>>().unwrap_or_default()
}

/// One statement for each, and its questions, as far as one command takes them. `None`: one of them
/// needs two.
fn short_statements(all: &[BatchedWrite<'_>], behind: &[KeyQuestions], me: TxId) -> Result<Option<Vec<Statements>>> {
    let (mut short, mut room) = (Vec::new(), Room::default());
    for (each, behind) in all.iter().zip(behind) {
        let (kind, statement) = match &each.action {
            BatchedAction::Insert(inserting) => (StatementKind::Insert, inserting.statement.clone()),
            // That the document was modified would say nothing but that it was locked.
            BatchedAction::Change(one) if one.change.is_lock() => return Ok(None),
            BatchedAction::Change(one) => {
                let as_read = conditions_of(one.as_read.as_ref());
                let kind = if one.is_removal() { StatementKind::Remove } else { StatementKind::Fused };
                match statement_of(&one.target, &one.change, me, None, as_read)? {
                    Some(statement) => (kind, statement),
                    None => return Ok(None),
                }
            }
        };
        let statements = Statements::new(kind, vec![statement], behind);
        if !room.takes(&statements) {
            break;
        }
        short.push(statements);
    }
    Ok(Some(short))
}

/// The conditions under which the document is as it was read.
fn conditions_of(as_read: Option<&Demanded>) -> &[Exact] {
    as_read.map_or(&[], |demanded| &demanded.conditions)
}

/// The statements that [`crate::coordinator::locking::single_write`] sends for a document that it
/// has not locked, and the questions behind them. `None`: what the filter says only an index
/// answers.
fn in_two(each: &BatchedWrite<'_>, behind: &KeyQuestions, me: TxId) -> Result<Option<Statements>> {
    let BatchedChange { target, change, .. } = match &each.action {
        BatchedAction::Change(changing) => changing,
        BatchedAction::Insert(inserting) => {
            return Ok(Some(Statements::new(StatementKind::Insert, vec![inserting.statement.clone()], behind)));
        }
    };
    if target.condition()?.text.is_some() {
        return Ok(None);
    }
    Ok(match change {
        Change::Remove => {
            let removal = statement_of(target, change, me, None, &[])?;
            removal.map(|statement| Statements::new(StatementKind::Remove, vec![statement], behind))
        }
        Change::Update { update, array_filters } => {
            let both = target.locked_and_changed(update, *array_filters, me)?;
            let all = both.iter().map(RawDocumentBuf::try_from).collect::<Result<_, _>>()?;
            Some(Statements::new(StatementKind::InTwo, all, behind))
        }
    })
}

/// Room in one command: the bytes of it that are taken.
#[derive(Default)]
struct Room {
    bytes: usize,
}

impl Room {
    /// Returns true if the command has room for these statements as well.
    fn takes(&mut self, statements: &Statements) -> bool {
        self.bytes += statements.all.iter().map(|one| one.as_bytes().len()).sum::<usize>();
        self.bytes <= BATCH_BYTES
    }
}
