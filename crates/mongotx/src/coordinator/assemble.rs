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
    locking::{Locking, locate::Locator, read_locks::ReadLocks, unique::Uniqueness},
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

/// The parts that most others stand on.
struct SharedParts {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    finisher: Finisher,
    catalog: Arc<Catalog>,
    repairs: Arc<Repairs>,
    options: Arc<ClientOptions>,
}

impl SharedParts {
    fn new(server: Arc<Server>, log: Arc<dyn TxLog>, shards: Shards, options: ClientOptions) -> Self {
        let finisher = Finisher::start(share(&server), share(&log), options.finish_delay);
        let catalog = Arc::new(Catalog::new(share(&server), shards, &options));
        let tx_database = &options.tx_database;
        let repairs = Repairs::new(share(&server), share(&log), finisher.clone(), share(&catalog), tx_database);
        Self { server, log, finisher, catalog, repairs: Arc::new(repairs), options: Arc::new(options) }
    }

    fn schema(&self, pending: &Arc<Pending>) -> Schema {
        let Self { server, log, catalog, repairs, options, .. } = self;
        Schema::new(share(server), share(log), share(catalog), share(repairs), share(pending), share(options))
    }

    fn unprobed(&self, pending: &Arc<Pending>, read_lease: Arc<ReadLease>) -> Arc<Unprobed> {
        let Self { server, log, finisher, options, .. } = self;
        Unprobed::new(share(server), share(log), finisher.clone(), share(pending), read_lease, share(options))
    }

    fn cleaning(&self) -> (Arc<Sweeper>, Arc<Checkpoints>) {
        let Self { server, log, catalog, repairs, options, .. } = self;
        let sweeper = Arc::new(Sweeper::new(share(server), share(log), share(catalog), share(repairs), options));
        let checkpoints = Checkpoints::new(share(server), share(&sweeper), share(options));
        (sweeper, checkpoints)
    }

    fn validating(&self) -> (Arc<Looks>, Arc<Unchanged>, Arc<QuietReader>) {
        let Self { server, log, catalog, options, .. } = self;
        let looks = Arc::new(Looks::new(share(server), share(log), share(catalog)));
        let unchanged = Unchanged::new(share(server), share(log), share(catalog), share(&looks), &options.tx_database);
        let quiet = QuietReader::new(share(server), share(log), options.lease);
        (looks, Arc::new(unchanged), Arc::new(quiet))
    }

    fn lifecycle(&self, unchanged: &Arc<Unchanged>, quiet: &Arc<QuietReader>) -> Arc<Lifecycle> {
        let Self { server, log, finisher, catalog, options, .. } = self;
        let (log, finisher, catalog) = (share(log), finisher.clone(), share(catalog));
        let (unchanged, quiet, options) = (share(unchanged), share(quiet), share(options));
        Arc::new(Lifecycle::new(share(server), log, finisher, catalog, unchanged, quiet, options))
    }

    fn locking(&self, unprobed: &Arc<Unprobed>, lifecycle: &Arc<Lifecycle>, standings: &Arc<Standings>) -> Locking {
        let Self { server, catalog, repairs, options, .. } = self;
        let read_locks = ReadLocks::new(share(server), share(catalog), share(repairs), share(options));
        Locking {
            server: share(server),
            finisher: self.finisher.clone(),
            catalog: share(catalog),
            repairs: share(repairs),
            unprobed: share(unprobed),
            lifecycle: share(lifecycle),
            standings: share(standings),
            read_locks: Arc::new(read_locks),
            uniqueness: Arc::new(Uniqueness::new(share(server), share(catalog), share(repairs))),
            options: share(options),
        }
    }
}

/// The parts of a client above its log, in the order in which they stand on each other.
pub(crate) fn assemble(
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    read_lease: Arc<ReadLease>,
    shards: Shards,
    options: ClientOptions,
) -> Arc<Core> {
    let shared = SharedParts::new(server, log, shards, options);
    let SharedParts { server, log, finisher, catalog, repairs, options } = &shared;
    let holders = Holders::new(share(log), finisher.clone());
    let pending = Pending::new(share(server), share(log), finisher.clone(), share(catalog), share(repairs));
    let unprobed = shared.unprobed(&pending, read_lease);
    let (sweeper, checkpoints) = shared.cleaning();
    let schema = shared.schema(&pending);
    let (looks, unchanged, quiet) = shared.validating();
    let standings = Arc::new(Standings::new(share(server), share(log)));
    let lifecycle = shared.lifecycle(&unchanged, &quiet);
    let locking = shared.locking(&unprobed, &lifecycle, &standings);
    Arc::new(Core {
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
        locator: Locator::new(share(server), share(catalog)),
        read_locks: share(&locking.read_locks),
        uniqueness: share(&locking.uniqueness),
        locking,
        expiries: Expiries::new(share(server), share(catalog)),
        forecast: Arc::default(),
        events: Events::new(share(server), options),
        reaper: Arc::default(),
        runtime: Handle::current(),
        server: shared.server,
        log: shared.log,
        finisher: shared.finisher,
        catalog: shared.catalog,
        repairs: shared.repairs,
        options: shared.options,
    })
}
