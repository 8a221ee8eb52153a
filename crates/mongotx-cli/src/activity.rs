//! Open transactions, as gateways list them in the database of the client records: user,
//! application, host, and what was done last. No decision depends on the list. A transaction that
//! no gateway lists belongs to an application with the library in it, or is a young one.

use std::collections::BTreeMap;

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::TxId;

use crate::{failure::Failure, say};

/// Collection of the gateways' records.
const COLLECTION: &str = "activity";
/// Records that are read: one for each gateway that has open transactions.
const MOST: i64 = 1_000;

/// Descriptions of open transactions that gateways have written to the store.
#[derive(Default)]
pub(crate) struct Activity(BTreeMap<TxId, Doing>);

/// Description of one open transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing {
    /// Name of the gateway at which it is open.
    pub(crate) gateway: String,
    /// User, application and host of the client.
    pub(crate) who: String,
    /// Milliseconds for which it had been open when the description was written.
    pub(crate) open_ms: u64,
    /// Collection and shape of the last statement.
    pub(crate) statement: String,
    /// The transaction that it waited for.
    pub(crate) waits_for: Option<TxId>,
}

impl Activity {
    /// Reads the present descriptions.
    pub(crate) async fn read(driver: &mongodb::Client, tx_database: &str) -> Result<Self, Failure> {
        let records = driver.database(tx_database).collection::<Document>(COLLECTION);
        let mut found = records.find(doc! {}).sort(doc! {"at": -1}).limit(MOST).await?;
        let mut all = BTreeMap::new();
        while let Some(record) = found.try_next().await? {
            let gateway = record.get_str("gateway").unwrap_or("a gateway");
            for described in
                record.get_array("transactions").into_iter().flatten().filter_map(|described| described.as_document())
            {
                if let Some(id) = described.get_str("id").ok().and_then(|id| id.parse().ok()) {
                    all.entry(id).or_insert_with(|| Doing::of(gateway, described));
                }
            }
        }
        Ok(Self(all))
    }

    /// Description of this transaction, if a gateway has written one.
    pub(crate) fn of(&self, id: TxId) -> Option<&Doing> {
        self.0.get(&id)
    }

    /// The transactions that wait for this one.
    pub(crate) fn waiting_for(&self, id: TxId) -> impl Iterator<Item = (&TxId, &Doing)> {
        self.0.iter().filter(move |(_, doing)| doing.waits_for == Some(id))
    }
}

impl Doing {
    fn of(gateway: &str, described: &Document) -> Self {
        let text = |field: &str| described.get_str(field).ok().map(say::plain);
        let who: Vec<String> = ["user", "application", "host"].iter().filter_map(|field| text(field)).collect();
        let statement: Vec<String> = ["namespace", "shape"].iter().filter_map(|field| text(field)).collect();
        Self {
            gateway: say::plain(gateway),
            who: who.join(", "),
            open_ms: described.get_i64("openMs").ok().and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0),
            statement: statement.join(" "),
            waits_for: described.get_str("waitsFor").ok().and_then(|id| id.parse().ok()),
        }
    }
}
