//! Events of changes of whole collections and databases: dropping and renaming.

use std::sync::Arc;

use bson::Document;
use futures_util::FutureExt;

use crate::{
    command::events::{EventLog, RecordedEvents},
    coordinator::{Core, stamps::retry_history::RetryHistory},
    error::Result,
    options::{Isolation, TransactionOptions},
};

/// A collection or a database is dropped or renamed by `change`: its events are behind all that
/// was committed before, and before all that is committed later. If the change is refused,
/// there are none.
pub(crate) async fn with_events<T>(
    core: &Arc<Core>,
    events: Vec<Document>,
    change: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let options = TransactionOptions {
        isolation: Some(Isolation::ReadCommitted),
        lock_wait: core.options.write_wait,
        ..TransactionOptions::default()
    };
    let mut tx = core.lifecycle.begin(options, RetryHistory::default());
    // On the heap: a change with all futures around it is deep.
    let numbers = match EventLog::of(core).number(&mut tx, events).boxed().await {
        Ok(numbers) => numbers,
        Err(error) => {
            core.lifecycle.roll_back(tx).await;
            return Err(error);
        }
    };
    match change.await {
        Ok(done) => {
            core.commit(tx).await?;
            RecordedEvents::numbered(numbers).are_committed(core);
            Ok(done)
        }
        Err(error) => {
            core.lifecycle.roll_back(tx).await;
            Err(error)
        }
    }
}
