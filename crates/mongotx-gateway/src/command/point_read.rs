//! A `find` of one `_id` outside transactions, on the way that most such commands can take: bytes
//! from the client to the server and back. A command that says anything else than which document it
//! wants takes the long way ([`super::run`]), which also has the errors for what is malformed; that
//! is decided before anything is sent.

use std::{pin::pin, time::Instant};

use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc, spec::BinarySubtype};
use futures_util::FutureExt;
use mongotx::Namespace;

use super::{
    parts::{
        body::Body,
        call::namespace_of,
        generic::{IGNORED, is_plain},
    },
    run::{CommandEnds, within_limits},
};
use crate::{
    connection::Connection,
    context::Context,
    failure::{Answer, Failure},
    reply::Reply,
    request::Request,
    session::{Lsid, entry::SessionEntry},
};

/// A `find` of one `_id`: the collection, the `_id`, and the session that it names.
#[derive(Debug, PartialEq)]
pub(crate) struct PointRead<'a> {
    collection: &'a str,
    id: RawBsonRef<'a>,
    lsid: Option<Lsid>,
}

impl<'a> PointRead<'a> {
    /// `None`: it is another command, or says more.
    pub(crate) fn parse(request: &'a Request) -> Option<Self> {
        if request.name() != "find" || !request.sequences().is_empty() {
            return None;
        }
        let (mut collection, mut id, mut lsid) = (None, None, None);
        let mut bounds = [None; 3];
        let mut ignored = [None; IGNORED.len()];
        for field in request.body().iter() {
            let (name, value) = field.ok()?;
            let is_first = match (name.as_str(), value) {
                ("find", RawBsonRef::String(name)) => collection.replace(name).is_none(),
                ("filter", RawBsonRef::Document(filter)) => id.replace(only_id(filter)?).is_none(),
                ("lsid", RawBsonRef::Document(name)) => lsid.replace(parse_lsid(name)?).is_none(),
                ("limit", RawBsonRef::Int32(0..) | RawBsonRef::Int64(0..)) => bounds[0].replace(()).is_none(),
                // With a batch of one the cursor stays open.
                ("batchSize", RawBsonRef::Int32(2..) | RawBsonRef::Int64(2..)) => bounds[1].replace(()).is_none(),
                ("singleBatch", RawBsonRef::Boolean(_)) => bounds[2].replace(()).is_none(),
                (name, value) => {
                    is_plain(name, value).then_some(())?;
                    let place = IGNORED.iter().position(|ignored| *ignored == name)?;
                    ignored[place].replace(()).is_none()
                }
            };
            // A field that is there twice is refused.
            if !is_first {
                return None;
            }
        }
        Some(Self { collection: collection?, id: id?, lsid })
    }
}

/// The one value that `{_id: value}` names, which no operator or pattern looks like.
pub(super) fn only_id(filter: &RawDocument) -> Option<RawBsonRef<'_>> {
    let mut fields = filter.iter();
    let (name, value) = fields.next()?.ok()?;
    let is_plain = matches!(
        value,
        RawBsonRef::ObjectId(_)
            | RawBsonRef::String(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Binary(_)
            | RawBsonRef::DateTime(_)
    );
    (name.as_str() == "_id" && is_plain && fields.next().is_none()).then_some(value)
}

/// The session's name, as drivers write it.
pub(super) fn parse_lsid(lsid: &RawDocument) -> Option<Lsid> {
    let mut fields = lsid.iter();
    let id = match fields.next()?.ok()? {
        (name, RawBsonRef::Binary(id)) if name.as_str() == "id" && id.subtype == BinarySubtype::Uuid => id.bytes,
        _ => return None,
    };
    fields.next().is_none().then_some(())?;
    Some(Lsid { id: id.try_into().ok()?, user: Vec::new() })
}

/// Carries the command out. `None`: nothing was done, for an `_id` may be there several times (in a
/// view, in a time series), or clients may not use the collection.
pub(crate) async fn answer_point_read(
    context: &Context,
    connection: &Connection,
    request: &Request,
    read: PointRead<'_>,
) -> Option<Reply> {
    let namespace = namespace_of(context, request.database(), read.collection).ok()?;
    if !matches!(context.client.cannot_lock(&namespace).await, Ok(None)) {
        return None;
    }
    // On the heap, as every command: idle connections have no use for its room.
    let answer = find(context, connection, &namespace, read).boxed().await;
    Some(answer.map_or_else(Reply::from, Body::into_reply).stamped(&context.tx.clock))
}

async fn find(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    PointRead { id, lsid, .. }: PointRead<'_>,
) -> Answer<Body> {
    let user = connection.user();
    let lsid = lsid.map(|lsid| lsid.of_user(user.as_deref())).transpose()?;
    let entry = lsid.map(|lsid| context.tx.sessions.get(&lsid, Instant::now())).transpose()?;
    let collection = context.client.database(&namespace.db).collection::<RawDocumentBuf>(&namespace.coll);
    // The future is pinned here: passing it on would copy it, and take its space twice.
    let found = pin!(async { collection.find_by_id_raw(id).await.map_err(Failure::from) });
    let ends = CommandEnds {
        time: None,
        interruption: entry.as_deref().map(SessionEntry::interruption),
        client: Some(connection),
    };
    let found = within_limits(ends, found).await.map_err(Failure::outside)?;
    let mut batch = RawArrayBuf::new();
    if let Some(found) = found {
        batch.push(found);
    }
    let cursor = rawdoc! {"firstBatch": batch, "id": 0_i64, "ns": namespace.to_string()};
    Ok(Body::of_cursor(cursor, None))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::{Binary, Bson, Document, Timestamp, doc, oid::ObjectId, raw::cstr};

    use super::*;

    fn is_read(command: Document) -> bool {
        PointRead::parse(&Request::of(&command).unwrap()).is_some()
    }

    fn time() -> Document {
        doc! {"clusterTime": Timestamp { time: 1, increment: 1 }}
    }

    fn find(besides: Document) -> Document {
        let mut command = doc! {"find": "c", "filter": {"_id": 1}, "$db": "d"};
        command.extend(besides);
        command
    }

    #[test]
    fn what_drivers_send_for_one_document_is_such_a_read() {
        let uuid = Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
        let sent = find(doc! {
            "limit": 1_i64, "singleBatch": true, "lsid": {"id": uuid}, "$clusterTime": time(), "$readPreference": {"mode": "primary"},
        });
        let request = Request::of(&sent).unwrap();
        let read = PointRead::parse(&request).unwrap();
        assert_eq!((read.collection, read.id), ("c", RawBsonRef::Int32(1)));
        assert_eq!(read.lsid.unwrap().id, [7; 16]);
        for id in [Bson::from("x"), ObjectId::new().into(), 5_i64.into()] {
            assert!(is_read(find(doc! {"filter": {"_id": id}})));
        }
    }

    #[test]
    fn whatever_says_more_takes_the_long_way() {
        for besides in [
            doc! {"filter": {}},
            doc! {"filter": {"a": 1}},
            doc! {"filter": {"_id": 1, "a": 1}},
            doc! {"filter": {"_id": {"$gt": 1}}},
            doc! {"filter": {"_id": {"a": 1}}},
            doc! {"filter": {"_id": [1]}},
            doc! {"filter": {"_id": Bson::RegularExpression(bson::Regex { pattern: "x".try_into().unwrap(), options: "".try_into().unwrap() })}},
            doc! {"limit": -1},
            doc! {"limit": 1.0},
            doc! {"batchSize": 0},
            doc! {"batchSize": 1},
            doc! {"projection": {"a": 1}},
            doc! {"skip": 1},
            doc! {"sort": {"a": 1}},
            doc! {"collation": {"locale": "en"}},
            doc! {"hint": "x"},
            doc! {"readConcern": {"level": "snapshot"}},
            doc! {"maxTimeMS": 5},
            doc! {"txnNumber": 1_i64, "autocommit": false},
            doc! {"lsid": {"id": 1}},
            doc! {"lsid": {}},
            doc! {"apiVersion": "1"},
            doc! {"$clusterTime": {}},
            doc! {"$clusterTime": {"clusterTime": 1}},
            doc! {"unknown": 1},
        ] {
            assert!(!is_read(find(besides.clone())), "{besides}");
        }
        assert!(!is_read(doc! {"count": "c", "query": {"_id": 1}, "$db": "d"}));
        assert!(!is_read(doc! {"find": 1, "filter": {"_id": 1}, "$db": "d"}));
        assert!(!is_read(doc! {"find": "c", "$db": "d"}));
    }

    #[test]
    fn fields_that_are_there_twice_take_the_long_way_where_they_are_refused() {
        for twice in [cstr!("filter"), cstr!("$clusterTime")] {
            let time = RawDocumentBuf::try_from(&time()).unwrap();
            let mut body = rawdoc! {"find": "c", "filter": {"_id": 1}, "$clusterTime": time.clone(), "$db": "d"};
            body.append(twice, time);
            assert!(PointRead::parse(&Request::of_parts(body, Vec::new(), None).unwrap()).is_none());
        }
    }
}
