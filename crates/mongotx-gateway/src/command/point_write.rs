//! An insert of one document, and an update or a deletion of one `_id`, outside transactions: bytes
//! from the client to the server, as in [`super::point_read`]. Everything else, and what is
//! malformed, takes the long way ([`super::run`]); that is decided before anything is sent. The
//! session, what it remembers of a retryable write, and the reply are those of the long way.

use std::{pin::pin, time::Instant};

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf};
use futures_util::FutureExt;
use mongotx::{Collection, Namespace};

use super::{
    parts::{
        body::Body,
        call::{Call, namespace_of},
        generic::{Generic, IGNORED, is_plain},
        writes::Tally,
    },
    point_read::{only_id, parse_lsid},
    run::{CommandEnds, begin_write, retryable_failure, within_limits},
};
use crate::{
    api::Api,
    connection::Connection,
    context::Context,
    error::code,
    failure::{Answer, Failure},
    options::RetryableWrites,
    reply::Reply,
    request::Request,
    session::{info::Mode, retry::StatementResult},
};

/// A write of one document: the collection, the change, and the place of the command in its
/// session.
#[derive(Debug, PartialEq)]
pub(crate) struct PointWrite<'a> {
    collection: &'a str,
    change: Change<'a>,
    mode: Mode,
}

/// The change of the one document.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change<'a> {
    Insert(&'a RawDocument),
    Update(RawBsonRef<'a>, &'a RawDocument),
    Delete(RawBsonRef<'a>),
}

impl<'a> PointWrite<'a> {
    /// `None`: it is another command, or says more.
    pub(crate) fn parse(request: &'a Request) -> Option<Self> {
        let name = request.name();
        let list = match name {
            "insert" => "documents",
            "update" => "updates",
            "delete" => "deletes",
            _ => return None,
        };
        let (mut collection, mut statement, mut lsid, mut number, mut ordered) = (None, None, None, None, None);
        let mut ignored = [None; IGNORED.len()];
        for field in request.body().iter() {
            let (field, value) = field.ok()?;
            let is_first = match (field.as_str(), value) {
                (field, RawBsonRef::String(coll)) if field == name => collection.replace(coll).is_none(),
                (field, RawBsonRef::Array(one)) if field == list => {
                    let mut all = one.into_iter().map(|one| one.ok()?.as_document());
                    statement.replace(only(&mut all)?).is_none()
                }
                ("lsid", RawBsonRef::Document(name)) => lsid.replace(parse_lsid(name)?).is_none(),
                ("txnNumber", RawBsonRef::Int64(newest @ 0..)) => number.replace(newest).is_none(),
                ("ordered", RawBsonRef::Boolean(_)) => ordered.replace(()).is_none(),
                (field, value) => {
                    is_plain(field, value).then_some(())?;
                    let place = IGNORED.iter().position(|ignored| *ignored == field)?;
                    ignored[place].replace(()).is_none()
                }
            };
            // A field that is there twice is refused.
            if !is_first {
                return None;
            }
        }
        for sequence in request.sequences() {
            let one = only(&mut sequence.documents().map(Result::ok))?;
            if sequence.name != list || statement.replace(one).is_some() {
                return None;
            }
        }
        let mode = match (lsid, number) {
            (Some(lsid), Some(number)) => Mode::Write(lsid, number),
            (None, Some(_)) => return None,
            (lsid, None) => Mode::Plain(lsid),
        };
        Some(Self { collection: collection?, change: Change::parse(name, statement?)?, mode })
    }
}

/// The one document, where there is one and no other.
fn only<'a>(documents: &mut impl Iterator<Item = Option<&'a RawDocument>>) -> Option<&'a RawDocument> {
    let one = documents.next()??;
    documents.next().is_none().then_some(one)
}

impl<'a> Change<'a> {
    fn parse(name: &str, statement: &'a RawDocument) -> Option<Self> {
        if name == "insert" {
            return Some(Self::Insert(statement));
        }
        let (mut id, mut update, mut limit) = (None, None, None);
        let mut flags = [None; 2];
        for field in statement.iter() {
            let (field, value) = field.ok()?;
            let is_first = match (field.as_str(), value) {
                ("q", RawBsonRef::Document(filter)) => id.replace(only_id(filter)?).is_none(),
                ("u", RawBsonRef::Document(change)) if name == "update" => update.replace(change).is_none(),
                ("multi", RawBsonRef::Boolean(false)) if name == "update" => flags[0].replace(()).is_none(),
                ("upsert", RawBsonRef::Boolean(false)) if name == "update" => flags[1].replace(()).is_none(),
                ("limit", RawBsonRef::Int32(1) | RawBsonRef::Int64(1)) if name == "delete" => {
                    limit.replace(()).is_none()
                }
                _ => return None,
            };
            if !is_first {
                return None;
            }
        }
        match name {
            "update" => Some(Self::Update(id?, update?)),
            _ => limit.and(Some(Self::Delete(id?))),
        }
    }

    fn tally(self) -> Tally {
        match self {
            // The one statement: whether others would follow it makes no difference.
            Self::Update(..) => Tally::of_updates(true),
            Self::Insert(_) | Self::Delete(_) => Tally::new(true),
        }
    }

    async fn send(self, collection: &Collection<RawDocumentBuf>) -> mongotx::Result<StatementResult> {
        Ok(match self {
            Self::Insert(document) => {
                collection.insert_one_raw(document).await?;
                StatementResult::Count(1)
            }
            Self::Update(id, update) => {
                let done = collection.update_by_id_raw(id, update).await?;
                StatementResult::Update {
                    matched: done.matched_count,
                    modified: done.modified_count,
                    upserted: done.upserted_id,
                }
            }
            Self::Delete(id) => StatementResult::Count(collection.delete_by_id_raw(id).await?),
        })
    }
}

/// Carries the command out. `None`: nothing was done, for the write is recorded with a transaction
/// of its own, or goes to the server as it is, or clients may not use the collection.
pub(crate) async fn answer_point_write(
    context: &Context,
    connection: &Connection,
    request: &Request,
    write: PointWrite<'_>,
) -> Option<Reply> {
    let is_recorded = context.options.retryable_writes == RetryableWrites::Durable;
    if is_recorded && matches!(write.mode, Mode::Write(..)) {
        return None;
    }
    let namespace = namespace_of(context, request.database(), write.collection).ok()?;
    if !matches!(context.client.cannot_lock(&namespace).await, Ok(None)) {
        return None;
    }
    // On the heap, as every command: idle connections have no use for its room.
    let answer = in_session(context, connection, request, &namespace, write).boxed().await;
    Some(answer.map_or_else(Reply::from, Body::into_reply).stamped(&context.tx.clock))
}

async fn in_session(
    context: &Context,
    connection: &Connection,
    request: &Request,
    namespace: &Namespace,
    PointWrite { change, mode, .. }: PointWrite<'_>,
) -> Answer<Body> {
    let user = connection.user();
    let user = user.as_deref();
    let (mode, generic) = (mode.of_user(user)?, Generic::default());
    let entry = mode.lsid().map(|lsid| context.tx.sessions.get(lsid, Instant::now())).transpose()?;
    let interruption = entry.as_deref().map(|entry| entry.interruption());
    let mut work = match (&mode, &entry) {
        (Mode::Write(lsid, number), Some(entry)) => {
            let mut work = entry.check_out().await;
            begin_write(context, lsid, *number, &mut work).await?;
            Some(work)
        }
        _ => None,
    };
    let is_retryable = work.is_some();
    let mut call = Call {
        context,
        connection,
        db: request.database(),
        name: request.name(),
        body: Document::new(),
        generic: &generic,
        api: Api::Stable(&[]),
        mode: &mode,
        user,
        session: None,
        made: None,
        retry: work.as_deref_mut().map(|work| &mut work.retry),
        validated: None,
        has_concern: false,
        is_refused: false,
    };
    // The future is pinned here: passing it on would copy it, and take its space twice each time.
    let noted = pin!(async {
        let made = carry_out(&mut call, namespace, change).await;
        call.is_answered();
        made
    });
    let noted = connection.doing().watch.over(noted);
    let made = within_limits(CommandEnds { time: None, interruption, client: None }, noted).await;
    made.map_err(|failure| if is_retryable { retryable_failure(failure) } else { failure.outside() })
}

async fn carry_out(call: &mut Call<'_>, namespace: &Namespace, change: Change<'_>) -> Answer<Body> {
    let mut tally = change.tally();
    if !tally.retried(call, 0)? {
        match change.send(&call.collection(namespace)).await {
            Ok(done) => tally.done(call, 0, done),
            // A document that cannot be stored as it is fails the whole command, as on the long
            // way, which reads it first.
            Err(error) if error.code() == Some(code::INVALID_BSON.number) => return Err(Failure::from(&error)),
            Err(error) => drop(tally.refused(call, 0, &error)?),
        }
    }
    tally.finish(call)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{Binary, Timestamp, doc, spec::BinarySubtype};

    use super::*;
    use crate::{request::Sequence, session::Lsid};

    fn is_write(command: &Document) -> bool {
        PointWrite::parse(&Request::of(command).unwrap()).is_some()
    }

    fn with(command: &Document, besides: Document) -> Document {
        let mut command = command.clone();
        command.extend(besides);
        command
    }

    fn commands() -> [Document; 3] {
        [
            doc! {"insert": "c", "documents": [{"_id": 1}], "$db": "d"},
            doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}], "$db": "d"},
            doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}], "$db": "d"},
        ]
    }

    #[test]
    fn what_drivers_send_for_one_document_is_such_a_write() {
        let uuid = Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
        for command in commands() {
            let sent = with(
                &command,
                doc! {"ordered": true, "lsid": {"id": uuid.clone()}, "txnNumber": 5_i64, "$clusterTime": {"clusterTime": Timestamp { time: 1, increment: 1 }}},
            );
            let request = Request::of(&sent).unwrap();
            let write = PointWrite::parse(&request).unwrap();
            assert_eq!((write.collection, write.mode), ("c", Mode::Write(Lsid { id: [7; 16], user: Vec::new() }, 5)));
            assert!(is_write(&command));
        }
        let body = RawDocumentBuf::try_from(&doc! {"insert": "c", "ordered": true, "$db": "d"}).unwrap();
        let documents = Sequence::new("documents", &[doc! {"_id": 1}]).unwrap();
        assert!(PointWrite::parse(&Request::of_parts(body, vec![documents], None).unwrap()).is_some());
    }

    #[test]
    fn whatever_says_more_takes_the_long_way() {
        for command in commands() {
            for besides in [
                doc! {"writeConcern": {"w": 1}},
                doc! {"maxTimeMS": 5},
                doc! {"comment": "x"},
                doc! {"let": {}},
                doc! {"bypassDocumentValidation": true},
                doc! {"txnNumber": 1_i64},
                doc! {"txnNumber": 1_i64, "lsid": {"id": 1}},
                doc! {"ordered": 1},
                doc! {"apiVersion": "1"},
                doc! {"unknown": 1},
            ] {
                assert!(!is_write(&with(&command, besides.clone())), "{besides}");
            }
        }
        for statement in [
            doc! {"q": {}, "u": {"$set": {"a": 1}}},
            doc! {"q": {"_id": 1, "a": 1}, "u": {"$set": {"a": 1}}},
            doc! {"q": {"_id": 1}, "u": [{"$set": {"a": 1}}]},
            doc! {"q": {"_id": 1}, "u": {"$set": {"a": 1}}, "upsert": true},
            doc! {"q": {"_id": 1}, "u": {"$set": {"a": 1}}, "multi": true},
            doc! {"q": {"_id": 1}, "u": {"$set": {"a": 1}}, "arrayFilters": []},
            doc! {"q": {"_id": 1}, "u": {"$set": {"a": 1}}, "limit": 1},
            doc! {"q": {"_id": 1}},
        ] {
            assert!(!is_write(&doc! {"update": "c", "updates": [statement.clone()], "$db": "d"}), "{statement}");
        }
        for statement in
            [doc! {"q": {"_id": 1}, "limit": 0}, doc! {"q": {"_id": 1}}, doc! {"q": {"_id": 1}, "limit": 1, "u": {}}]
        {
            assert!(!is_write(&doc! {"delete": "c", "deletes": [statement.clone()], "$db": "d"}), "{statement}");
        }
        assert!(!is_write(&doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}], "$db": "d"}));
        assert!(!is_write(&doc! {"insert": "c", "documents": [], "$db": "d"}));
        assert!(!is_write(&doc! {"insert": "c", "documents": [1], "$db": "d"}));
        assert!(!is_write(&doc! {"insert": "c", "updates": [{"_id": 1}], "$db": "d"}));
        assert!(!is_write(&doc! {"insert": 1, "documents": [{"_id": 1}], "$db": "d"}));
    }
}
