//! A checkpoint: everything that was decided is finished, nothing is locked, and no transaction is
//! decided until it ends. A plain copy of the application's databases is then right, and of one
//! moment as far as transactions have written them. See decision 0049.
//!
//! 1. The hold is written ([`crate::coordinator::log::hold`]): from now on no client registers.
//! 2. Every record that is open is fenced, whether its client lives or not. What was not decided is
//!    rolled back.
//! 3. A sweep finishes what they have decided, undoes the rest and closes them ([`super::sweep`]).
//! 4. Owners that live learn of the fence by their next sign of life, a third of their lease later
//!    at most. Until then they may still lock documents, in vain: after that time nothing may be
//!    locked in any of their collections. Otherwise again from 2.
//! 5. The change stamps of all records are noted. Each record that has any has to be closed:
//!    otherwise the hold has lapsed already, and again from 2. The hold is renewed, and each time
//!    the stamps have to be the same: nothing was decided. So a hold that has lapsed, for whatever
//!    reason, is noticed.
//! 6. At the end the stamps are compared once more, and it is checked that no message that came
//!    late has locked a document.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{doc, oid::ObjectId};
use protocol::ClientId;
use sd2v::names::WRITER;
use tokio::{runtime::Handle, sync::watch, task::JoinHandle};
use tracing::instrument::WithSubscriber;

use super::sweep::{Sweeper, any_lock};
use crate::{
    coordinator::{
        Core,
        log::{
            hold::{Hold, LIFE},
            records::{Records, StoredRecord},
        },
        server::Server,
        stamps::{changes::Stamps, closed_records::ClosedRecords},
    },
    error::{Error, ErrorKind, Result},
    options::{ClientOptions, Namespace},
};

/// Interval between two renewals of the hold.
const BEAT: Duration = Duration::from_secs(2);
/// Longest time of steps 2 to 4, besides what live owners need.
const SETTLING: Duration = Duration::from_secs(60);
/// Between two rounds of these steps.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest delay of an owner's sign of life.
const LATE: Duration = Duration::from_millis(500);
/// Documents that a message which came late has locked, as far as they are counted in a collection.
const COUNTED: usize = 1_000;

/// The change stamps of all records that have any.
type Decided = HashMap<ClientId, Arc<Stamps>>;

/// The decisions that the records show.
struct DecidedStamps {
    stamps: Decided,
    /// True if everything that they have decided is finished.
    are_closed: bool,
}

/// Transactions are held until this ends ([`Checkpoint::end`]). Dropped, it ends in the background.
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// # client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
/// let checkpoint = client.checkpoint().await?;
/// assert!(checkpoint.preparation().collections.contains(accounts.namespace()));
///
/// let copied = async { accounts.find(doc! {}).await?.try_collect().await };
/// let copy = tokio::select! {
///     copy = copied => copy?,
///     reason = checkpoint.until_broken() => panic!("copy again, this copy is of several moments: {reason}"),
/// };
/// let ended = checkpoint.end().await?;
/// assert_eq!((ended.broken, ended.late), (None, 0)); // the copy is of one moment
/// assert_eq!(copy, [doc! {"_id": 1}]);
/// # Ok(()) }
/// ```
#[must_use = "transactions are held as long as it lives"]
pub struct Checkpoint {
    checkpoints: Arc<Checkpoints>,
    /// The client that made the checkpoint. It goes on sweeping as long as the checkpoint lives.
    _client: Arc<Core>,
    by: ObjectId,
    hold: Hold,
    preparation: CheckpointPreparation,
    decided: Arc<Decided>,
    keeper: JoinHandle<()>,
    broken: watch::Receiver<Option<String>>,
    has_ended: bool,
}

/// The work that was necessary before the checkpoint could begin.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckpointPreparation {
    /// Clients that were alive: what they had not decided was rolled back.
    pub fenced: usize,
    /// Documents that were finished, undone or unlocked.
    pub repaired: usize,
    /// The collections in which clients may have locked documents in the last 30 minutes. None is
    /// locked.
    pub collections: BTreeSet<Namespace>,
}

/// End of a checkpoint: whether what was copied meanwhile is of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointResult {
    /// Why what was copied meanwhile may be of several moments.
    pub broken: Option<String>,
    /// Documents that a message which came late has locked meanwhile: copies of them may have
    /// reserved fields. Their values are right.
    pub late: usize,
}

impl Checkpoint {
    /// The work that was necessary before it could begin.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client, accounts);
    /// # client.session().with_transaction(async |session| accounts.insert_one(&doc! {"_id": 1}).session(session).await).await?;
    /// let checkpoint = client.checkpoint().await?;
    /// let preparation = checkpoint.preparation();
    /// println!("{} documents were finished or unlocked", preparation.repaired);
    /// assert!(preparation.collections.contains(accounts.namespace())); // these have to be copied
    /// checkpoint.end().await?;
    /// # Ok(()) }
    /// ```
    pub fn preparation(&self) -> &CheckpointPreparation {
        &self.preparation
    }

    /// Returns when it has ended too early: what is copied may be of several moments.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # use std::time::Duration;
    /// let checkpoint = client.checkpoint().await?;
    /// let copying = tokio::time::sleep(Duration::from_millis(10)); // a tool that copies
    /// tokio::select! {
    ///     () = copying => println!("copied"),
    ///     reason = checkpoint.until_broken() => panic!("copy again: {reason}"),
    /// }
    /// assert_eq!(checkpoint.end().await?.broken, None);
    /// # Ok(()) }
    /// ```
    pub async fn until_broken(&self) -> String {
        let mut broken = self.broken.clone();
        match broken.wait_for(Option::is_some).await.map(|reason| reason.clone()) {
            Ok(Some(reason)) => reason,
            _ => "the hold is not renewed any more".to_owned(),
        }
    }

    /// Lets transactions go on, and says whether the checkpoint has held.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let checkpoint = client.checkpoint().await?;
    /// // Copy the databases here.
    /// let ended = checkpoint.end().await?;
    /// match ended.broken {
    ///     None => println!("the copy is of one moment"),
    ///     Some(reason) => panic!("copy again: {reason}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server does not answer: then it is not known whether it
    /// has held, and it ends by itself.
    pub async fn end(mut self) -> Result<CheckpointResult> {
        self.keeper.abort();
        let mut broken = self.broken.borrow().clone();
        let late = self.checkpoints.locked_late(&self.preparation.collections).await;
        let disturbed = self.checkpoints.disturbed(&self.decided).await;
        let ended = self.hold.end(&self.checkpoints.server, self.by).await;
        self.has_ended = ended.is_ok();
        broken = broken.or(disturbed?);
        if !ended? {
            broken.get_or_insert_with(lapsed);
        }
        Ok(CheckpointResult { broken, late: late? })
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        self.keeper.abort();
        if self.has_ended {
            return;
        }
        let (checkpoints, hold, by) = (Arc::clone(&self.checkpoints), self.hold.clone(), self.by);
        let runtime = checkpoints.runtime.clone();
        let end = async move {
            if let Err(error) = hold.end(&checkpoints.server, by).await {
                tracing::warn!(%error, "the hold of a checkpoint ends by itself");
            }
        };
        runtime.spawn(end.with_current_subscriber());
    }
}

fn lapsed() -> String {
    let life = LIFE.as_secs();
    format!("the hold has ended by itself, because it could not be renewed for {life} s")
}

/// Begins checkpoints, and looks whether they hold.
pub(crate) struct Checkpoints {
    server: Arc<Server>,
    sweeper: Arc<Sweeper>,
    records: Records,
    options: Arc<ClientOptions>,
    /// The client's runtime, in which holds are renewed.
    runtime: Handle,
}

impl Checkpoints {
    pub(crate) fn new(server: Arc<Server>, sweeper: Arc<Sweeper>, options: Arc<ClientOptions>) -> Arc<Self> {
        let (records, runtime) = (Records::new(&options.tx_database), Handle::current());
        Arc::new(Self { server, sweeper, records, options, runtime })
    }

    /// Begins a checkpoint of this client: steps 1 to 5.
    pub(crate) async fn begin(self: &Arc<Self>, client: &Arc<Core>) -> Result<Checkpoint> {
        if self.options.is_published() {
            return Err(Error::unsupported("there are no checkpoints in the published layout"));
        }
        let (by, hold) = (ObjectId::new(), Hold::new(&self.options.tx_database));
        hold.take(&self.server, by).await?;
        let (tell, broken) = watch::channel(None);
        let (begin, settled) = watch::channel(None);
        let keeper = keep(Arc::clone(self), hold.clone(), by, settled, tell);
        let keeper = self.runtime.spawn(keeper.with_current_subscriber());
        let preparation = CheckpointPreparation::default();
        // From here on it ends with whatever ends this.
        let (checkpoints, client) = (Arc::clone(self), Arc::clone(client));
        let mut held = Checkpoint {
            checkpoints,
            _client: client,
            by,
            hold,
            preparation,
            decided: Arc::default(),
            keeper,
            broken,
            has_ended: false,
        };
        held.decided = loop {
            let CheckpointPreparation { fenced, repaired, collections } = self.settle().await?;
            held.preparation.fenced += fenced;
            held.preparation.repaired += repaired;
            held.preparation.collections = collections;
            if held.broken.borrow().is_some() {
                break Arc::default();
            }
            let decided = self.decided().await?;
            if decided.are_closed {
                break Arc::new(decided.stamps);
            }
        };
        if let Some(reason) = held.broken.borrow().clone() {
            return Err(Error::new(ErrorKind::Unavailable, reason));
        }
        begin.send_replace(Some(Arc::clone(&held.decided)));
        Ok(held)
    }

    /// Steps 2 to 4, until nothing is locked.
    async fn settle(&self) -> Result<CheckpointPreparation> {
        let mut preparation = CheckpointPreparation::default();
        let (mut quiet_at, mut deadline) = (Instant::now(), Instant::now() + SETTLING);
        loop {
            let found = self.records.read(&self.server, &[]).await?;
            preparation.collections.extend(found.iter().flat_map(|record| record.namespaces.iter().cloned()));
            let open: Vec<&StoredRecord> = found.iter().filter(|record| !record.closed).collect();
            for record in open.iter().filter(|record| !record.record.fenced) {
                self.records.fence_now(&self.server, record.client).await?;
                if !record.expired {
                    preparation.fenced += 1;
                    let heard = Duration::from_millis(record.lease_ms.unsigned_abs()) / 3 + LATE;
                    quiet_at = quiet_at.max(Instant::now() + heard);
                    deadline = deadline.max(quiet_at + SETTLING);
                }
            }
            preparation.repaired += self.sweeper.sweep().await?.repaired;
            if open.is_empty() && Instant::now() >= quiet_at && self.unlock(&mut preparation).await? {
                return Ok(preparation);
            }
            if Instant::now() >= deadline {
                return Err(self.unsettled(&open));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns true if no document is locked in these collections. Repairs those that are.
    async fn unlock(&self, preparation: &mut CheckpointPreparation) -> Result<bool> {
        let mut is_clean = true;
        for ns in &preparation.collections {
            if !self.sweeper.locked_documents(ns, 1).await?.is_empty() {
                is_clean = false;
                let locked = doc! {"$or": any_lock()};
                preparation.repaired += self.sweeper.repair_where(ns, locked).await?.repaired;
            }
        }
        Ok(is_clean)
    }

    fn unsettled(&self, open: &[&StoredRecord]) -> Error {
        let whose = match open.first() {
            Some(record) => format!("client {} cannot be closed", record.client),
            None => "documents are locked again and again".to_owned(),
        };
        let limit = SETTLING.as_secs();
        let message = format!("not everything could be finished within {limit} s: {whose}; see `mongotx doctor`");
        Error::new(ErrorKind::Unavailable, message)
    }

    async fn decided(&self) -> Result<DecidedStamps> {
        let scan = self.records.changes(&self.server, &ClosedRecords::default()).await?;
        let mut stamps = scan.changes.0;
        stamps.retain(|_, stamps| !stamps.is_empty());
        let are_closed = stamps.keys().all(|client| scan.closed.contains(client));
        Ok(DecidedStamps { stamps, are_closed })
    }

    /// Why what is copied is not of one moment: a transaction was decided since. (A record that was
    /// closed long ago may be gone.)
    async fn disturbed(&self, before: &Decided) -> Result<Option<String>> {
        let now = self.decided().await?.stamps;
        let disturber = now.iter().find(|(client, stamps)| before.get(*client) != Some(*stamps));
        Ok(disturber.map(|(client, _)| format!("client {client} has decided transactions meanwhile")))
    }

    /// Documents that were locked since nothing was.
    async fn locked_late(&self, collections: &BTreeSet<Namespace>) -> Result<usize> {
        let mut late = 0;
        for ns in collections {
            let limit = COUNTED as i64;
            let find = doc! {"find": &ns.coll, "filter": {WRITER: {"$exists": true}}, "projection": {"_id": 1}, "limit": limit};
            late += self.server.collect_raw(&ns.db, find, COUNTED).await?.len();
        }
        Ok(late)
    }
}

/// Renews the hold; once there is something to compare with, looks whether anything was decided.
/// Sends the reason why it has ended too early.
async fn keep(
    checkpoints: Arc<Checkpoints>,
    hold: Hold,
    by: ObjectId,
    settled: watch::Receiver<Option<Arc<Decided>>>,
    tell: watch::Sender<Option<String>>,
) {
    let mut renewed = Instant::now();
    let reason = loop {
        tokio::time::sleep(BEAT).await;
        let asked = Instant::now();
        match hold.renew(&checkpoints.server, by).await {
            Ok(true) => renewed = asked,
            Ok(false) => break lapsed(),
            Err(_) if renewed.elapsed() < LIFE => {}
            Err(error) => break format!("{}: {error}", lapsed()),
        }
        let before = settled.borrow().clone();
        // An error: the next look finds out; the last one has to.
        if let Some(before) = before
            && let Ok(Some(reason)) = checkpoints.disturbed(&before).await
        {
            break reason;
        }
    };
    tracing::warn!(%reason, "a checkpoint has ended too early");
    tell.send_replace(Some(reason));
}
