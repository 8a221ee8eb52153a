//! The one way in which a live transaction changes documents: its locks, its changes, and what it
//! gives back or takes back.
//!
//! 1. The transaction is in doubt before the command is sent ([`Live`]): whatever happens to the
//!    future from here on, it is known.
//! 2. The command is sent once.
//! 3. Answered: the transaction can go on. Not answered: it stays in doubt and is rolled back; the
//!    changes of a command that arrives then are an orphan's, which any client rolls back.
//!
//! Without 1 a future that is dropped leaves a message that no caller waits for: a lock that is
//! given back late would undo what the transaction has written, and acknowledged, since.

use std::{iter, sync::Arc};

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, raw::cstr, rawdoc};
use protocol::TxId;
use sd2v::{
    names::{WRITER, tx_id_to_bson},
    statement,
};

use super::{
    Server, WriteAnswer,
    answer::read_answer,
    failures::{interrupted, kept},
    lean::Batch,
    stream::Stream,
};
use crate::{
    coordinator::request::{
        address::{Address, among},
        fields::Fields,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// A transaction that is not decided, as this interface knows it.
pub(crate) trait Live {
    /// Id of the transaction, as soon as it may lock documents.
    fn id(&self) -> Option<TxId>;

    /// A prepared write is about to be sent, which changes these fields of documents there, or
    /// inserts or removes some (all fields). Returns the doubt that stood before this write.
    fn sending(&mut self, ns: &Namespace, touches: &Fields) -> Doubt;

    /// Notes that the prepared write was answered. `has_changed`: it has changed documents, for
    /// which the statement must come to its end.
    fn answered(&mut self, has_changed: bool);

    /// Notes that the write was answered, and has changed nothing for which its statement must come
    /// to its end.
    fn answered_as_before(&mut self, before: Doubt);
}

/// The uncertainty about a transaction, should the future of a statement be dropped now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Every statement so far has come to its end.
    None,
    /// A statement has changed documents and has not come to its end: half of it may be done, or
    /// done and not checked.
    Statement,
    /// A prepared write is under way, or its answer was lost: it may still arrive.
    Message,
}

/// The answer to a prepared write that shows the document.
pub(crate) enum FindAndModifyAnswer {
    /// The document, or the requested fields of it: locked by this write, or by another
    /// transaction.
    Found(Document),
    /// The write has matched nothing, and changed nothing.
    Nothing,
    /// The server refuses the write. Its longer form reports the error in the user's terms.
    Refused,
}

/// The document in a server's answer to a `findAndModify`.
enum ModifiedDocument {
    /// The document; `None`: none has matched.
    Shown(Option<Document>),
    /// A document with text that is not UTF-8.
    Unreadable(RawDocumentBuf),
}

/// A prepared write that is sent together with queries behind it.
pub(crate) struct LeadingWrite<'a> {
    ns: &'a Namespace,
    command: Document,
    /// Queries that belong to the write, and stand before all others.
    questions: Vec<Document>,
    /// `None`: it was not sent.
    answer: Option<Result<LedWrite>>,
}

/// The answer to a prepared write, and to its questions.
pub(crate) struct LedWrite {
    pub(crate) answer: WriteAnswer,
    /// True if a question has found a document; `None`: they were not all asked and answered.
    pub(crate) has_found: Option<bool>,
}

impl LedWrite {
    /// The answer to a write without questions.
    pub(crate) fn unasked(answer: WriteAnswer) -> Self {
        Self { answer, has_found: None }
    }
}

/// Returns true if one of these queries has found a document; `None`: one was not answered.
fn has_found(answers: &[Result<RawDocumentBuf>]) -> Option<bool> {
    let found = |answer: &Result<RawDocumentBuf>| {
        Some(Batch::of(answer.as_ref().ok()?, "firstBatch").ok()?.documents().next().is_some())
    };
    answers.iter().map(found).try_fold(false, |any, found| Some(any | found?))
}

/// Returns true if it is certain that the server has carried the command out, or refused it.
fn is_answered<T>(answer: Result<T, &Error>) -> bool {
    !answer.is_err_and(|error| error.kind() == ErrorKind::Unavailable)
}

/// Notes the answer to a prepared write, if there is one. A mere lock changes nothing that would
/// have to be completed.
fn note_answer(tx: &mut impl Live, answer: Result<&WriteAnswer, &Error>, is_lock: bool) {
    if is_answered(answer) {
        tx.answered(!is_lock && answer.is_ok_and(WriteAnswer::has_changed));
    }
}

impl Server {
    /// A prepared write and queries behind it, in one write: the server begins each when it has
    /// answered the one before it. `None`: they cannot be sent so, and nothing was.
    pub(crate) async fn prepare_and_ask(
        self: &Arc<Self>,
        leading: &mut LeadingWrite<'_>,
        queries: &[(&str, &Document)],
    ) -> Result<Option<Vec<Result<Stream>>>> {
        let Some(mut line) = self.line().await? else { return Ok(None) };
        let db = leading.ns.db.as_str();
        let own = iter::once(&leading.command).chain(&leading.questions).map(|command| (db, command));
        let all: Vec<(&str, &Document)> = own.chain(queries.iter().copied()).collect();
        let mut answers = match line.ask_together(&all).await {
            Ok(None) => return Ok(None),
            Ok(Some(answers)) => answers.into_iter(),
            Err(lost) => {
                leading.answer = Some(Err(lost.clone()));
                return Err(lost);
            }
        };
        let name = leading.command.keys().next().map_or("", String::as_str);
        let written = answers.next().unwrap_or_else(|| unreachable!("there is one answer for each command"));
        let written = written.and_then(|answer| kept(read_answer(name, &answer)?));
        let written = written.map_err(|error| interrupted(error).clean());
        let asked: Vec<Result<RawDocumentBuf>> = answers.by_ref().take(leading.questions.len()).collect();
        leading.answer = Some(written.and_then(|answer| {
            Ok(LedWrite { answer: WriteAnswer::parse_write(&answer)?, has_found: has_found(&asked) })
        }));
        Ok(Some(self.streams(line.runtime(), answers)))
    }
}

impl Server {
    /// Sends a prepared write, once. `touches`: the fields that it changes.
    pub(crate) async fn send_prepared(
        &self,
        tx: &mut impl Live,
        ns: &Namespace,
        mut command: Document,
        touches: &Fields,
    ) -> Result<WriteAnswer> {
        Server::judged_as_asked(&mut command);
        self.send_judged(tx, ns, RawDocumentBuf::try_from(&command)?, touches).await
    }

    /// The same, of an `update` that is bytes already.
    pub(crate) async fn send_prepared_raw(
        &self,
        tx: &mut impl Live,
        ns: &Namespace,
        mut command: RawDocumentBuf,
        touches: &Fields,
    ) -> Result<WriteAnswer> {
        Server::judged_raw_as_asked(&mut command);
        self.send_judged(tx, ns, command, touches).await
    }

    async fn send_judged(
        &self,
        tx: &mut impl Live,
        ns: &Namespace,
        command: RawDocumentBuf,
        touches: &Fields,
    ) -> Result<WriteAnswer> {
        tx.sending(ns, touches);
        self.at(Step::BeforeLock).await;
        let answer = self.prepare_raw(ns, command).await;
        self.at(Step::AfterLock).await;
        note_answer(tx, answer.as_ref(), *touches == Fields::none());
        answer.map(WriteAnswer::of_held)
    }

    /// A prepared write that is about to be sent with queries behind it, of which `questions` are
    /// whether there are some documents. It may change any field.
    pub(crate) async fn lead<'a>(
        &self,
        tx: &mut impl Live,
        ns: &'a Namespace,
        mut command: Document,
        questions: Vec<Document>,
    ) -> LeadingWrite<'a> {
        Server::judged_as_asked(&mut command);
        tx.sending(ns, &Fields::All);
        self.at(Step::BeforeLock).await;
        LeadingWrite { ns, command, questions, answer: None }
    }

    /// The answer to a write that was to be sent with queries behind it. If it was not, it is sent
    /// now, with its questions if they can be sent together.
    pub(crate) async fn led(self: &Arc<Self>, tx: &mut impl Live, mut leading: LeadingWrite<'_>) -> Result<LedWrite> {
        if leading.answer.is_none() && !leading.questions.is_empty() {
            // Where nothing was sent, for whatever reason, the write is sent by itself.
            let _ = self.prepare_and_ask(&mut leading, &[]).await;
        }
        let led = match leading.answer {
            Some(led) => led,
            None => self.prepare(leading.ns, leading.command).await.map(LedWrite::unasked),
        };
        self.at(Step::AfterLock).await;
        note_answer(tx, led.as_ref().map(|led| &led.answer), false);
        led.map(|led| LedWrite { answer: led.answer.of_held(), ..led })
    }

    /// Sends a prepared write that answers the document, or those `fields` of it that the statement
    /// names, once. Of several, the first by the statement's `sort`.
    pub(crate) async fn send_find_and_modify(
        &self,
        tx: &mut impl Live,
        ns: &Namespace,
        statement: &RawDocument,
        touches: &Fields,
    ) -> Result<FindAndModifyAnswer> {
        let mut command = rawdoc! {"findAndModify": &*ns.coll, "new": true};
        for (part, name) in
            [("q", cstr!("query")), ("u", cstr!("update")), ("fields", cstr!("fields")), ("sort", cstr!("sort"))]
        {
            if let Some(value) = statement.get(part)? {
                command.append(name, value);
            }
        }
        Server::judged_raw_as_asked(&mut command);
        tx.sending(ns, touches);
        self.at(Step::BeforeLock).await;
        let answer = self.find_and_modify(&ns.db, command).await.map_err(interrupted);
        self.at(Step::AfterLock).await;
        match answer {
            Ok(ModifiedDocument::Shown(found)) => {
                let writer = tx.id().map(tx_id_to_bson);
                let is_locked = found.as_ref().is_some_and(|found| found.get(WRITER) == writer.as_ref());
                tx.answered(is_locked && *touches != Fields::none());
                Ok(found.map_or(FindAndModifyAnswer::Nothing, FindAndModifyAnswer::Found))
            }
            Ok(ModifiedDocument::Unreadable(found)) => self.give_back_unreadable(tx, ns, &found).await,
            Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
            Err(_) => {
                tx.answered(false);
                Ok(FindAndModifyAnswer::Refused)
            }
        }
    }

    async fn find_and_modify(&self, db: &str, command: RawDocumentBuf) -> Result<ModifiedDocument> {
        let command = self.durably(command)?;
        let shown = |mut answer: Document| match answer.remove("value") {
            Some(Bson::Document(found)) => ModifiedDocument::Shown(Some(found)),
            _ => ModifiedDocument::Shown(None),
        };
        let Some(mut line) = self.line().await? else {
            return kept(self.send_by(None, db, Document::try_from(&*command)?).await?).map(shown);
        };
        let answer = line.ask_raw(db, &command).await?;
        match (read_answer("findAndModify", &answer), answer.get_document("value")) {
            (Ok(answer), _) => kept(answer).map(shown),
            (Err(_), Ok(found)) if !matches!(answer.get("writeConcernError"), Ok(Some(_))) => {
                Ok(ModifiedDocument::Unreadable(found.to_owned()))
            }
            (Err(unreadable), _) => Err(unreadable),
        }
    }

    /// Takes back what a `findAndModify` has done to a document that cannot be read. Its longer
    /// form does not show it, or names the field that cannot be read. Until this is answered the
    /// transaction is in doubt.
    async fn give_back_unreadable(
        &self,
        tx: &mut impl Live,
        ns: &Namespace,
        found: &RawDocument,
    ) -> Result<FindAndModifyAnswer> {
        let field = |name| found.get(name).ok().flatten().and_then(|value| Bson::try_from(value).ok());
        let Some(me) = tx.id().filter(|me| field(WRITER) == Some(tx_id_to_bson(*me))) else {
            tx.answered(false);
            return Ok(FindAndModifyAnswer::Nothing);
        };
        let Some(id) = field("_id") else {
            let message = format!("a document of {ns} has an _id that is not UTF-8");
            return Err(Error::new(ErrorKind::Unavailable, message).maybe_done());
        };
        let statement = statement::give_back(Address::bare(id).filter(), me);
        let command = doc! {"update": &ns.coll, "updates": [statement]};
        let mut answer = self.prepare(ns, command.clone()).await.map_err(Error::ending)?;
        if answer.breaks_validator() {
            answer = self.prepare(ns, Server::unjudged(command)).await.map_err(Error::ending)?;
        }
        answer.ok().map_err(Error::ending)?;
        tx.answered(false);
        Ok(FindAndModifyAnswer::Refused)
    }

    /// Takes read locks by one command, which is sent once.
    pub(crate) async fn send_read_lock(
        &self,
        tx: &mut impl Live,
        ns: &Namespace,
        statement: Document,
    ) -> Result<WriteAnswer> {
        let before = tx.sending(ns, &Fields::none());
        self.at(Step::BeforeReadLock).await;
        let command = doc! {"update": &ns.coll, "updates": [statement], "ordered": true};
        let answer = self.prepare(ns, command).await;
        self.at(Step::AfterReadLock).await;
        if is_answered(answer.as_ref()) {
            tx.answered_as_before(before);
        }
        answer
    }

    /// Gives documents back that the transaction has locked and not inserted. What they are
    /// afterwards was judged by the collection's validator when it was written, or is older.
    ///
    /// # Errors
    /// They end the transaction: what it has changed is still there.
    pub(crate) async fn give_back(&self, tx: &mut impl Live, ns: &Namespace, at: &[Address]) -> Result<()> {
        let Some(me) = tx.id() else { return Ok(()) };
        let statement = statement::give_back(among(at), me);
        let command = doc! {"update": &ns.coll, "updates": [statement], "ordered": true};
        let mut answer = self.send_prepared(tx, ns, command.clone(), &Fields::All).await.map_err(Error::ending)?;
        if answer.breaks_validator() {
            let unjudged = Server::unjudged(command);
            answer = self.send_prepared(tx, ns, unjudged, &Fields::All).await.map_err(Error::ending)?;
        }
        answer.ok().map(drop).map_err(Error::ending)
    }

    /// Takes documents away again that the transaction has inserted.
    ///
    /// # Errors
    /// They end the transaction: it has inserted what it must not commit.
    pub(crate) async fn take_back_inserts(&self, tx: &mut impl Live, ns: &Namespace, at: &[Address]) -> Result<()> {
        let Some(me) = tx.id().filter(|_| !at.is_empty()) else { return Ok(()) };
        let command = doc! {"delete": &ns.coll, "deletes": [statement::take_back_inserts(among(at), me)]};
        let answer = self.send_prepared(tx, ns, command, &Fields::All).await;
        answer.and_then(WriteAnswer::ok).map(drop).map_err(Error::ending)
    }
}
