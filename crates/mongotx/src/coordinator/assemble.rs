//! Puts a client together: each part gets what it uses, and no part gets one that uses it.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{
    Core,
    catalog::{Catalog, Shards},
    cleaning::{checkpoint::Checkpoints, sweep::Sweeper},
    events::Events,
    expiry::Expiries,
    finishing::{finisher::Finisher, holders::Holders, repairs::Repairs},
    lifecycle::{Lifecycle, standing::Standings},
    locking::{Locking, by_key::WantedKeys, locate::Locator, read_locks::ReadLocks, unique::Uniqueness},
    log::{records::Records, txlog::TxLog},
    queries::{
        pending::Pending,
        read_lease::{ReadLease, Unprobed},
    },
    schema::Schema,
    server::Server,
    validating::{looks::Looks, quiet_reader::QuietReader, unchanged::Unchanged},
};
use crate::options::ClientOptions;

fn share<T: ?Sized>(part: &Arc<T>) -> Arc<T> {
    Arc::clone(part)
}

/// The parts of a client above its log, in the order in which they stand on each other.
pub(crate) fn assemble(
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    read_lease: Arc<ReadLease>,
    shards: Shards,
    options: ClientOptions,
) -> Arc<Core> {
    let options = Arc::new(options);
    let finisher = Finisher::start(share(&server), share(&log), options.finish_delay);
    let catalog = Arc::new(Catalog::new(share(&server), shards, &options));
    let repairs =
        Arc::new(Repairs::new(share(&server), share(&log), finisher.clone(), share(&catalog), &options.tx_database));
    let holders = Holders::new(share(&log), finisher.clone());
    let pending = Pending::new(share(&server), share(&log), finisher.clone(), share(&catalog), share(&repairs));
    let unprobed =
        Unprobed::new(share(&server), share(&log), finisher.clone(), share(&pending), read_lease, share(&options));
    let sweeper = Arc::new(Sweeper::new(share(&server), share(&log), share(&catalog), share(&repairs), &options));
    let checkpoints = Checkpoints::new(share(&server), share(&sweeper), share(&options));
    let schema =
        Schema::new(share(&server), share(&log), share(&catalog), share(&repairs), share(&pending), share(&options));
    let looks = Arc::new(Looks::new(share(&server), share(&log), share(&catalog)));
    let unchanged =
        Arc::new(Unchanged::new(share(&server), share(&log), share(&catalog), share(&looks), &options.tx_database));
    let quiet = Arc::new(QuietReader::new(share(&server), share(&log), options.lease));
    let standings = Arc::new(Standings::new(share(&server), share(&log)));
    let lifecycle = Arc::new(Lifecycle::new(
        share(&server),
        share(&log),
        finisher.clone(),
        share(&catalog),
        share(&unchanged),
        share(&quiet),
        share(&options),
    ));
    let locator = Locator::new(share(&server), share(&catalog));
    let read_locks = Arc::new(ReadLocks::new(share(&server), share(&catalog), share(&repairs), share(&options)));
    let uniqueness = Arc::new(Uniqueness::new(share(&server), share(&catalog), share(&repairs)));
    let locking = Locking {
        server: share(&server),
        finisher: finisher.clone(),
        catalog: share(&catalog),
        repairs: share(&repairs),
        unprobed: share(&unprobed),
        lifecycle: share(&lifecycle),
        standings: share(&standings),
        read_locks: share(&read_locks),
        uniqueness: share(&uniqueness),
        wanted: WantedKeys::default(),
        options: share(&options),
    };
    let expiries = Expiries::new(share(&server), share(&catalog));
    let events = Events::new(share(&server), &options);
    Arc::new(Core {
        server,
        log,
        finisher,
        catalog,
        repairs,
        holders,
        pending,
        unprobed,
        sweeper,
        checkpoints,
        schema,
        records: Records::new(&options.tx_database),
        looks,
        unchanged,
        quiet,
        standings,
        lifecycle,
        locator,
        read_locks,
        uniqueness,
        locking,
        expiries,
        forecast: Arc::default(),
        events,
        options,
        reaper: Arc::default(),
        runtime: Handle::current(),
    })
}
