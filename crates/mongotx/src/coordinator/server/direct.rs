//! Writes outside transactions, and writes to the records of transactions. Neither changes a
//! document that a transaction holds: the first demand that the document has no lock, or are
//! refused if it has one, the second are in a collection that no transaction writes to.

use bson::{Bson, Document, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId, raw::cstr, rawdoc};
use sd2v::{
    index::is_of_pending,
    names::{READERS, WRITER},
    raw,
    statement::is_unlocked_or_failing,
    unheld,
};

use super::{
    Server, WriteAnswer,
    answer::read_answer,
    failures::{interrupted, kept},
    lean::Line,
    plain::Admitted,
};
use crate::{
    coordinator::stored::own_collections::{CHECKPOINT, DEPLOYMENT, ORPHANS, TXS},
    error::{Error, ErrorKind, Result},
    options::Namespace,
    scoped,
};

/// Commands that change documents and have ways of their own.
const WRITES: [&str; 6] = ["insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite"];

/// Returns true if it is a command that changes documents.
pub(super) fn is_write(command: &Document) -> bool {
    command.keys().next().is_some_and(|name| WRITES.contains(&name.as_str()))
}

/// The collection whose documents a command may change; `None`: any collection.
fn written(db: &str, command: &Document) -> Option<Namespace> {
    /// Commands about a collection that bear its name.
    const OF_ONE: [&str; 5] = ["create", "createIndexes", "dropIndexes", "collMod", "drop"];
    let (name, coll) = command.iter().next()?;
    let is_of_one = is_write(command) && name != "bulkWrite" || OF_ONE.contains(&name.as_str());
    coll.as_str().filter(|_| is_of_one).map(|coll| Namespace::new(db, coll))
}

/// Returns true if every statement demands that its document has no lock, or does not exist, or
/// fails where it has one.
pub(crate) fn spares_locked(command: &Document) -> bool {
    let mut statements = ["updates", "deletes"].into_iter().filter_map(|list| command.get_array(list).ok()).flatten();
    let spares = |filter: &Bson| {
        let filter = filter.as_document();
        filter.is_some_and(|filter| is_unlocked(filter) || is_unlocked_or_failing(filter) || is_nowhere(filter))
    };
    let all_spare = statements.all(|statement| {
        let statement = statement.as_document();
        statement.is_some_and(|one| one.get("q").is_some_and(spares) || unheld::is_guarded(one))
    });
    all_spare && command.get("query").is_none_or(spares)
}

fn is_unlocked(filter: &Document) -> bool {
    let absent =
        |field| filter.get_document(field).is_ok_and(|condition| condition.get("$exists") == Some(&false.into()));
    absent(WRITER) && absent(READERS)
}

/// Returns true if it makes an empty collection that keeps its documents, or indexes by which no
/// committed document is found. A view may show documents at once; and which documents move while
/// an index is scanned depends on its fields, which others know ten seconds later (decision 0069).
fn only_makes(command: &Document) -> bool {
    match command.keys().next().map(String::as_str) {
        Some("create") => !command.contains_key("expireAfterSeconds") && !command.contains_key("viewOn"),
        Some("createIndexes") => command.get_array("indexes").is_ok_and(|indexes| {
            let name = |index: &Bson| index.as_document()?.get_str("name").ok().map(is_of_pending);
            indexes.iter().all(|index| name(index) == Some(true))
        }),
        _ => false,
    }
}

/// Returns true if it is sent for the server's error, and can change no document.
pub(crate) fn matches_nothing(command: &Document) -> bool {
    let may_insert = |statement: &Document| matches!(statement.get("upsert"), Some(Bson::Boolean(true)));
    let is_nothing = |filter: Option<&Bson>| filter.and_then(Bson::as_document).is_some_and(is_nowhere);
    match (command.get_array("updates"), command.get("query")) {
        (Ok(statements), _) => statements
            .iter()
            .all(|one| one.as_document().is_some_and(|one| is_nothing(one.get("q")) && !may_insert(one))),
        (Err(_), query) => is_nothing(query) && !may_insert(command),
    }
}

/// Returns true if the filter is one that `command::query::nowhere` makes: an `_id` that no
/// document has, and something else. A filter that the application has sent has conditions for the
/// lock beside it.
fn is_nowhere(filter: &Document) -> bool {
    let all = filter.get_array("$and").ok().filter(|all| all.len() == 2 && filter.len() == 1);
    let first = all.and_then(|all| all.first()?.as_document());
    first.is_some_and(|first| first.len() == 1 && first.get_object_id("_id").is_ok())
}

fn refused(command: &Document, why: &str) -> Error {
    let name = command.keys().next().map_or("", String::as_str);
    Error::new(ErrorKind::Corruption, format!("the command {name} was not sent: {why}"))
}

impl Server {
    /// A write of the application's own, outside a transaction. A write that the server refused was
    /// not done; of one that it did and may lose again, the error has the counts.
    pub(crate) async fn write_directly(&self, db: &str, mut command: Document) -> Result<WriteAnswer> {
        self.nodes.on_majority(&mut command);
        Self::judged_as_asked(&mut command);
        check_direct(&command)?;
        if matches_nothing(&command) {
            return self.as_asked(db, command).await;
        }
        let ns = written(db, &command);
        let name = command.keys().next().cloned().unwrap_or_default();
        let write = async |line| judge(&name, self.send_by(line, db, command).await.map_err(Error::or_indeterminate)?);
        self.plainly(ns.as_ref(), write).await
    }

    /// As [`Server::write_directly`], for a command of several statements, of which some may be
    /// done when the server gives it up, and which is admitted. `line`: the connection that it was
    /// made for, if any.
    pub(crate) async fn write_several_directly(
        &self,
        db: &str,
        mut command: Document,
        admitted: Admitted,
        line: Option<Line<'_>>,
    ) -> Result<WriteAnswer> {
        self.nodes.on_majority(&mut command);
        Self::judged_as_asked(&mut command);
        check_direct(&command)?;
        let (name, ns) = (command.keys().next().cloned().unwrap_or_default(), written(db, &command));
        let line = match line {
            Some(line) => Some(line),
            None => self.line().await?,
        };
        self.check_covered(ns.as_ref())?;
        let write = async {
            let answer = self.send_by(line, db, command).await.map_err(interrupted).map_err(Error::or_indeterminate)?;
            judge_several(&name, answer)
        };
        self.plainly_admitted(admitted, ns.as_ref(), write).await
    }

    /// Inserts one document outside a transaction, as bytes. `None`: nothing was sent, for commands
    /// go over the driver, or the validator is to be bypassed.
    pub(crate) async fn insert_raw(&self, ns: &Namespace, document: &RawDocument) -> Result<Option<WriteAnswer>> {
        let mut documents = RawArrayBuf::new();
        documents.push(document);
        let insert = rawdoc! {"insert": &*ns.coll, "documents": documents};
        self.write_raw(ns, "insert", insert).await
    }

    /// Updates the document with this `_id` outside a transaction, if no transaction holds it.
    /// `home`: the database of the records. `None`: as [`Server::insert_raw`].
    pub(crate) async fn update_raw(
        &self,
        ns: &Namespace,
        id: RawBsonRef<'_>,
        update: &RawDocument,
        home: &str,
    ) -> Result<Option<PointUpdate>> {
        if scoped::bypasses_validation() {
            return Ok(None);
        }
        let admitted = self.admit_plain(Some(ns)).await?;
        let guarded = if unheld::has_no_fields(id) { unheld::guarded_raw(update) } else { None };
        let line = match guarded {
            Some(_) => self.guarded_line(home).await?,
            None => self.line().await?.map(|line| (line, false)),
        };
        let Some((line, is_trusted)) = line else { return Ok(None) };
        self.check_covered(Some(ns))?;
        let guarded = guarded.filter(|_| is_trusted);
        let mut statement = RawDocumentBuf::new();
        statement.append(cstr!("q"), if guarded.is_some() { raw::only(id) } else { raw::unlocked(id) });
        statement.append(cstr!("u"), guarded.as_deref().unwrap_or(update));
        let mut statements = RawArrayBuf::new();
        statements.push(statement);
        let update = rawdoc! {"update": &*ns.coll, "updates": statements};
        let answer = self.plainly_admitted(admitted, Some(ns), send_raw(line, &ns.db, "update", update)).await?;
        Ok(Some(PointUpdate { answer, is_guarded: guarded.is_some() }))
    }

    /// Deletes the document with this `_id` outside a transaction, if no transaction holds it.
    /// `None`: as [`Server::insert_raw`].
    pub(crate) async fn delete_raw(&self, ns: &Namespace, id: RawBsonRef<'_>) -> Result<Option<WriteAnswer>> {
        let mut statements = RawArrayBuf::new();
        statements.push(rawdoc! {"q": raw::unlocked(id), "limit": 1});
        let delete = rawdoc! {"delete": &*ns.coll, "deletes": statements};
        self.write_raw(ns, "delete", delete).await
    }

    /// Sends a plain write as bytes. `None`: as [`Server::insert_raw`].
    async fn write_raw(&self, ns: &Namespace, name: &str, command: RawDocumentBuf) -> Result<Option<WriteAnswer>> {
        // The document is written by the other way, which has the option.
        if scoped::bypasses_validation() {
            return Ok(None);
        }
        let write = async |line| match line {
            Some(line) => send_raw(line, &ns.db, name, command).await.map(Some),
            None => Ok(None),
        };
        self.plainly(Some(ns), write).await
    }

    /// As [`Server::write_directly`], for other commands of the application's own that write.
    pub(crate) async fn run_directly(&self, db: &str, command: Document) -> Result<Document> {
        self.run_directly_in(None, db, command).await
    }

    /// The same, in this server process or not at all: the command rests on what that has answered.
    /// `None`: in any one.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if there is another one by now; nothing was written then.
    pub(crate) async fn run_directly_in(
        &self,
        process: Option<ObjectId>,
        db: &str,
        mut command: Document,
    ) -> Result<Document> {
        self.nodes.on_majority(&mut command);
        Self::judged_as_asked(&mut command);
        check_direct(&command)?;
        let changes_nothing = matches_nothing(&command) || only_makes(&command);
        let ns = written(db, &command);
        if changes_nothing {
            return self.send_kept(db, command).await.map_err(Error::or_indeterminate);
        }
        let write = async |line: Option<Line<'_>>| {
            let reached = line.as_ref().map_or_else(|| self.nodes.process(), Line::process);
            if process.is_some() && reached != process {
                let message = "the server was started anew while the command was prepared: it was not sent";
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            let answer = self.send_by(line, db, command).await.and_then(kept);
            answer.map_err(Error::or_indeterminate)
        };
        self.plainly(ns.as_ref(), write).await
    }

    /// Sends a write with the write concern that the command names.
    async fn as_asked(&self, db: &str, command: Document) -> Result<WriteAnswer> {
        let name = command.keys().next().cloned().unwrap_or_default();
        judge(&name, self.send(db, command).await.map_err(Error::or_indeterminate)?)
    }

    /// A write to the records of transactions, whose answer has a shape of its own.
    pub(crate) async fn run_on_records(&self, ns: &Namespace, command: Document) -> Result<Document> {
        check_records(ns, &command)?;
        self.send_kept(&ns.db, command).await
    }

    /// Writes to the records by `insert`, `update` or `delete`.
    pub(crate) async fn write_records(&self, ns: &Namespace, command: Document) -> Result<WriteAnswer> {
        WriteAnswer::parse_write(&self.run_on_records(ns, command).await?)
    }

    /// The same over the connection that is there since [`Server::connections`] was `number`, or
    /// not at all. It is sent once.
    pub(crate) async fn write_records_over(
        &self,
        ns: &Namespace,
        command: Document,
        number: u64,
    ) -> Result<WriteAnswer> {
        check_records(ns, &command)?;
        WriteAnswer::parse_write(&kept(self.send_over(&ns.db, &command, number).await?)?)
    }

    /// The same, answered as a write of the application's own is: with whether its write concern
    /// was satisfied.
    pub(crate) async fn write_records_as_asked(&self, ns: &Namespace, command: Document) -> Result<WriteAnswer> {
        check_records(ns, &command)?;
        self.as_asked(&ns.db, command).await
    }

    /// The same as [`Server::write_records`], as durable as a lock has to be.
    pub(crate) async fn prepare_records(&self, ns: &Namespace, mut command: Document) -> Result<WriteAnswer> {
        self.nodes.on_majority(&mut command);
        self.write_records(ns, command).await
    }

    /// Sends any command that changes no documents. What was done and may be lost again
    /// (`writeConcernError`) counts as unanswered.
    pub(crate) async fn run_command(&self, db: &str, command: Document) -> Result<Document> {
        if is_write(&command) {
            return Err(refused(&command, "writes have ways of their own"));
        }
        self.send_kept(db, command).await
    }
}

/// The server's answer to an update of one `_id`.
pub(crate) struct PointUpdate {
    pub(crate) answer: WriteAnswer,
    /// The server has refused the statement, if the document is held. Otherwise it has matched
    /// nothing.
    pub(crate) is_guarded: bool,
}

/// Over a connection of this library's own, which leads to a server that keeps the data alone: no
/// write concern is named.
async fn send_raw(mut line: Line<'_>, db: &str, name: &str, command: RawDocumentBuf) -> Result<WriteAnswer> {
    let answer = line.ask_raw(db, &command).await.map_err(Error::or_indeterminate)?;
    judge(name, read_answer(name, &answer)?)
}

/// The result of a write of the application's own, by its answer, and whether that may be lost
/// again.
fn judge(name: &str, answer: Document) -> Result<WriteAnswer> {
    let written = WriteAnswer::parse_write(&answer).map_err(|away| away.maybe_done().or_indeterminate())?;
    if written.errors.is_empty() {
        kept(answer).map_err(|error| error.or_indeterminate().with_progress(written.progress(name)))?;
    }
    Ok(written)
}

/// The answer to several statements: where some have failed, what the others have done may be lost
/// again, too.
fn judge_several(name: &str, answer: Document) -> Result<WriteAnswer> {
    let concern_error = answer.get_document("writeConcernError").ok().cloned();
    let written = judge(name, answer)?;
    match concern_error.filter(|_| !written.errors.is_empty()) {
        None => Ok(written),
        Some(error) => {
            let message =
                format!("some statements were refused, and what the others have done may be lost again: {error}");
            Err(Error::new(ErrorKind::Indeterminate, message))
        }
    }
}

fn check_direct(command: &Document) -> Result<()> {
    match spares_locked(command) {
        true => Ok(()),
        false => Err(refused(command, "outside a transaction it could change what a transaction holds")),
    }
}

fn check_records(ns: &Namespace, command: &Document) -> Result<()> {
    match [TXS, DEPLOYMENT, ORPHANS, CHECKPOINT].contains(&ns.coll.as_str()) {
        true => Ok(()),
        false => Err(refused(command, "it is for the records of transactions")),
    }
}

#[cfg(test)]
mod tests {
    use bson::{doc, oid::ObjectId};
    use protocol::{ClientId, TxId};
    use sd2v::statement;

    use super::*;

    const LIVE: TxId = TxId { client: ClientId([1; 12]), seq: 1 };

    #[test]
    fn what_makes_collections_and_indexes_of_what_is_pending_changes_nothing() {
        let pending = doc! {"key": {"_xTxId": 1}, "name": "_mongotx_pending"};
        let mirror = doc! {"key": {"_unsafe.a": 1}, "name": "_mongotx_unsafe.a_1"};
        let (plain, unique) =
            (doc! {"key": {"a": 1}, "name": "a"}, doc! {"key": {"a": 1}, "name": "_mongotx_unique.a_1"});
        let harmless = doc! {"createIndexes": "c", "indexes": [pending.clone(), mirror]};
        for harmless in [doc! {"create": "c"}, harmless] {
            assert!(only_makes(&harmless), "{harmless}");
        }
        for other in [
            doc! {"createIndexes": "c", "indexes": [pending, plain]},
            doc! {"createIndexes": "c", "indexes": [unique]},
            doc! {"create": "v", "viewOn": "c", "pipeline": []},
            doc! {"create": "c", "expireAfterSeconds": 5_i64},
            doc! {"collMod": "c"},
            doc! {"drop": "c"},
        ] {
            assert!(!only_makes(&other), "{other}");
        }
    }

    #[test]
    fn statements_of_live_transactions_are_not_let_through() {
        let who = doc! {"_id": ObjectId::new()};
        let taken = doc! {"delete": "c", "deletes": [statement::take_back_inserts(who.clone(), LIVE)]};
        assert!(!spares_locked(&taken), "{taken}");
        for statement in [
            statement::give_back(who.clone(), LIVE),
            statement::restore_safe(who.clone(), LIVE),
            statement::lock_read(who.clone(), LIVE),
            statement::change_unsafe(who, LIVE, doc! {"$set": {"_unsafe.n": 1}}.into(), false),
        ] {
            assert!(!spares_locked(&doc! {"update": "c", "updates": [statement.clone()]}), "{statement}");
        }
    }

    #[test]
    fn what_may_be_lost_again_is_reported_beside_statements_that_were_refused() {
        let answer = |failed: bool, lost: bool| {
            let mut answer = doc! {"n": 2, "nModified": 2, "ok": 1.0};
            answer.extend(
                failed.then(|| ("writeErrors".to_owned(), vec![doc! {"index": 1, "code": 241, "errmsg": "no"}].into())),
            );
            answer.extend(lost.then(|| ("writeConcernError".to_owned(), doc! {"code": 64, "errmsg": "no"}.into())));
            judge_several("update", answer)
        };
        assert_eq!(answer(false, false).unwrap().n, 2);
        assert_eq!(answer(true, false).unwrap().errors.len(), 1);
        assert!(answer(false, true).unwrap_err().unreplicated_answer().is_some());
        let error = answer(true, true).unwrap_err();
        assert_eq!((error.kind(), error.unreplicated_answer()), (ErrorKind::Indeterminate, None));
    }

    #[test]
    fn reads_are_no_writes() {
        assert!(is_write(&doc! {"update": "c", "updates": []}) && !is_write(&doc! {"find": "update"}));
    }
}
