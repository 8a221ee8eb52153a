//! One case: a gateway is broken at a step while clients use it and another one, and comes back.
//!
//! 1. Both gateways serve; each client's transfers go to either. (Where the step belongs to the
//!    repair of what a dead client has left, the other gateway starts only after 2: it would do the
//!    repair itself.)
//! 2. One reaches its step and is killed or paused. The network closes its connections and opens
//!    none to it.
//! 3. All clients make transfers through the other one.
//! 4. The broken one is started again, or goes on. All make transfers through both; one goes to it
//!    alone.
//! 5. Both end, and the store is looked at.

use std::sync::{Arc, atomic::AtomicBool};

use bson::{Document, doc};
use local_mongod::signal;
use mongotx::Step;

use super::{
    bank::{ACCOUNTS, BEGINNING, Business, Customer, Ledger, Work},
    check,
    disturbed::Disturbed,
    process::{Blow, Job, Process},
    relay::Relay,
};

const LEASE_MS: u64 = 700;
const TRANSFERS: usize = 1;

/// One gateway, broken at one step.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) uri: String,
    pub(crate) db: String,
    pub(crate) business: Business,
    step: Step,
    blow: Blow,
}

impl Case {
    pub(crate) fn new(uri: &str, business: Business, step: Step, blow: Blow) -> Self {
        let uri = format!("{uri}&serverSelectionTimeoutMS=8000");
        let name = format!("{business:?}, {blow:?} at {step:?}");
        Self { name, uri, db: local_mongod::unique_db("failover"), business, step, blow }
    }

    fn work(&self, name: &str, uri: &str, ledger: &Arc<Ledger>) -> Work {
        let (business, ledger) = (self.business, Arc::clone(ledger));
        Work { business, name: name.to_owned(), uri: uri.to_owned(), db: self.db.clone(), ledger }
    }

    pub(crate) fn tx_database(&self) -> String {
        format!("{}_tx", self.db)
    }

    /// Returns true if the step belongs to the repair of another client's leftovers.
    fn repairs(&self) -> bool {
        use Step::{AfterFence, AfterRepair, AfterRetire, BeforeFence, BeforeRepair, BeforeRetire};
        [BeforeFence, AfterFence, BeforeRepair, AfterRepair, BeforeRetire, AfterRetire].contains(&self.step)
    }

    fn job(&self, breaks: bool) -> Job {
        // Kills at the first time, pauses at the second, of what happens more than once in a
        // gateway's life.
        let once = self.repairs() || [Step::BeforeRegister, Step::AfterRegister].contains(&self.step);
        let nth = if self.blow == Blow::Kill || once { 1 } else { 2 };
        Job {
            uri: self.uri.clone(),
            tx_database: self.tx_database(),
            lease_ms: LEASE_MS,
            durable: self.business == Business::Deposits,
            breaks: breaks.then_some((self.step, nth, self.blow)),
        }
    }

    pub(crate) async fn break_and_check(&self) {
        let ledger = Arc::new(Ledger::default());
        self.set_up(&ledger).await;
        let (relay, other_relay) = (Relay::new().await, Relay::new().await);
        let mut broken = Process::start(&self.job(true));
        if let Some(address) =
            broken.until("listening", |reports| reports.listening.is_some() || reports.struck).await.listening
        {
            relay.open(address);
        }
        let mut other = None;
        if !self.repairs() {
            other = Some(self.start_other(&other_relay).await);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let uri = format!("mongodb://{},{}", relay.address(), other_relay.address());
        let mut customers: Vec<Customer> =
            ["ann", "bob"].map(|name| Customer::start(self.work(name, &uri, &ledger), &stop)).into();
        let disturbed = self.start_disturbed(&relay).await;

        let reports = broken.until(&format!("{}: the step", self.name), |reports| reports.struck).await;
        assert!(reports.struck, "{}: the step was not reached", self.name);
        if self.blow == Blow::Stop {
            broken.until_paused().await;
        }
        relay.shut();
        drop(disturbed);
        let other = match other {
            Some(other) => other,
            None => self.start_other(&other_relay).await,
        };
        until_all_made(&mut customers).await;

        let broken = self.revive(broken, &relay).await;
        until_all_made(&mut customers).await;
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for customer in customers {
            customer.end().await;
        }
        self.work("cleo", &format!("mongodb://{}", relay.address()), &ledger).alone().await;
        broken.end(&self.name).await;
        other.end(&self.name).await;
        check::all(self, &ledger).await;
    }

    async fn set_up(&self, ledger: &Arc<Ledger>) {
        let client = mongodb::Client::with_uri_str(&self.uri).await.unwrap();
        let database = client.database(&self.db);
        let accounts = (0..ACCOUNTS).map(|id| doc! {"_id": id, "balance": BEGINNING});
        database.collection::<Document>("accounts").insert_many(accounts).await.unwrap();
        database.create_collection("audit").await.unwrap();
        if self.repairs() {
            self.leave_something(ledger).await;
        }
    }

    /// A gateway that dies with a decided transfer whose documents are not finished, and others
    /// under way.
    async fn leave_something(&self, ledger: &Arc<Ledger>) {
        let breaks = Some((Step::BeforeFinish, 1, Blow::Kill));
        let mut dead = Process::start(&Job { breaks, ..self.job(false) });
        let address = dead.until("listening", |reports| reports.listening.is_some()).await.listening.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        // Its customers never learn the outcomes of their last transfers.
        let uri = format!("mongodb://{address}");
        let customers = ["dan", "eve"].map(|name| Customer::start(self.work(name, &uri, ledger), &stop));
        assert!(dead.until("a decision", |reports| reports.struck).await.struck, "{}", self.name);
        customers.into_iter().for_each(Customer::leave);
    }

    /// Starts a client that makes the gateway reach its step, where the customers do so only by
    /// chance.
    async fn start_disturbed(&self, relay: &Relay) -> Option<Disturbed> {
        if ![Step::BeforeQuiet, Step::AfterQuiet].contains(&self.step) {
            return None;
        }
        let server = mongodb::Client::with_uri_str(&self.uri).await.unwrap();
        Some(Disturbed::start(&server, &format!("mongodb://{}", relay.address()), &self.db).await)
    }

    async fn start_other(&self, relay: &Relay) -> Process {
        let mut other = Process::start(&self.job(false));
        relay.open(other.until("listening", |reports| reports.listening.is_some()).await.listening.unwrap());
        other
    }

    /// Brings the broken gateway back: step 4.
    async fn revive(&self, mut broken: Process, relay: &Relay) -> Process {
        match self.blow {
            Blow::Kill => broken = Process::start(&self.job(false)),
            Blow::Stop => signal::cont(broken.pid()).unwrap(),
        }
        relay.open(broken.until("listening", |reports| reports.listening.is_some()).await.listening.unwrap());
        broken
    }
}

async fn until_all_made(customers: &mut [Customer]) {
    for customer in customers {
        customer.until_made(TRANSFERS).await;
    }
}
