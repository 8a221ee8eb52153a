//! Collections of special kinds: each works, or is refused with the reason. See
//! `docs/special-collections.md`.
//!
//! | file | what |
//! | --- | --- |
//! | [`capped`] | capped collections |
//! | [`series`] | time series |
//! | [`views`] | views |
//! | [`keyed`] | clustered collections, and those with a default collation |
//! | [`files`] | GridFS |
//! | [`servers`] | the server's own collections and databases, and the records of clients |

mod capped;
mod files;
mod keyed;
mod series;
mod servers;
mod views;

use bson::{Document, doc};
use mongotx::{Collection, Error, ErrorKind, Session};

/// All that a pipeline answers, in a transaction or outside one.
pub(crate) async fn all(coll: &Collection<Document>, stages: &[Document], of: Option<&mut Session>) -> Vec<Document> {
    let action = coll.aggregate(stages.to_vec());
    let cursor = match of {
        Some(session) => action.session(session).await,
        None => action.await,
    };
    cursor.unwrap().try_collect().await.unwrap()
}

/// Refused by name: with the collection and the reason.
pub(crate) fn assert_refused(error: &Error, reason: &str) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(reason), "{error}");
}

/// Every way to write in a transaction is refused with this reason, and so is what outside of one
/// would be one of its own; the session's transaction goes on. `there`: a filter that finds a
/// document.
pub(crate) async fn assert_writes_refused(
    coll: &Collection<Document>,
    there: Document,
    session: &mut Session,
    reason: &str,
) {
    let (some, set) = (there, doc! {"$set": {"a": 2}});
    assert_refused(&coll.insert_one(&doc! {"_id": 100}).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.insert_many(&[doc! {"_id": 100}]).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.update_one(some.clone(), set.clone()).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.replace_one(some.clone(), &doc! {}).upsert(true).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.find_one_and_update(some.clone(), set.clone()).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.delete_one(some.clone()).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.delete_many(some.clone()).session(session).await.unwrap_err(), reason);
    assert_refused(&coll.update_many(some, set).await.unwrap_err(), reason);
    assert_refused(&coll.insert_many(&[doc! {"_id": 100}]).await.unwrap_err(), reason);
    assert!(session.is_open());
}
