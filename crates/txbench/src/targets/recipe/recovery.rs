//! Recovers transactions that clients have left.
//!
//! An initial one is canceled: nothing of it has happened. A pending one is gone through with from
//! its changes on, an applied one from its marks on.

use std::{mem, sync::PoisonError};

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use mongodb::{Database, options::WriteConcern};

use super::{
    Left,
    log::{LOGS, Log},
};
use crate::error::{BenchError, OpError};

/// Time for which a log of another process must be unchanged before it is recovered, in
/// milliseconds.
const LEASE_MS: i64 = 10_000;
/// Transactions that are recovered at once; more are a reason to look for.
const MOST: i64 = 100_000;

/// Recovers what clients of this process have left, and what others have left some time ago.
pub(super) async fn recover(db: &Database, left: &Left) -> Result<(), BenchError> {
    let own = mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
    let own: Vec<Bson> = own.into_iter().map(Bson::from).collect();
    let old = doc! {"$expr": {"$lt": ["$lastModified", {"$subtract": ["$$NOW", LEASE_MS]}]}};
    let open = doc! {"state": {"$in": ["initial", "pending", "applied"]}, "$or": [{"_id": {"$in": own}}, old]};
    let logs = db.collection::<Document>(LOGS);
    let found: Vec<Document> = logs.find(open).limit(MOST).await?.try_collect().await?;
    for found in found {
        let claim = doc! {
            "_id": found.get("_id").cloned(), "state": found.get("state").cloned(),
            "lastModified": found.get("lastModified").cloned(),
        };
        let touch = doc! {"$currentDate": {"lastModified": true}};
        if logs.update_one(claim, touch).await?.matched_count == 0 {
            continue;
        }
        let log = Log::read(db.clone(), &found)?;
        let gone_on = match found.get_str("state") {
            Ok("pending") => log.go_through(WriteConcern::default()).await,
            Ok("applied") => log.finish().await,
            _ => log.advance("initial", "canceled", WriteConcern::default()).await.map(drop).map_err(OpError::from),
        };
        gone_on.map_err(|error| BenchError::Failed(format!("recipe: a transaction is not recovered: {error}")))?;
    }
    Ok(())
}
