//! The properties of `docs/protocol.md`, checked through other clients after one was broken.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc};
use mongotx::{Client, ErrorKind, Outcome, TransactionOptions, TxId};

use super::{
    scenario::{End, Progress, Scenario},
    until,
    world::{COLLECTIONS, State, World},
};

/// Answers that the broken client has reported.
#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<(Option<TxId>, Option<End>)>);

impl Report {
    pub(crate) fn note(&self, progress: Progress) {
        let mut noted = self.0.lock().unwrap();
        match progress {
            Progress::Id(id) => noted.0 = Some(id),
            Progress::End(end) => noted.1 = Some(end),
        }
    }

    pub(crate) fn id(&self) -> Option<TxId> {
        self.0.lock().unwrap().0
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.0.lock().unwrap().1
    }
}

/// One case: its world and scenario, the client's answers, and words for the messages.
pub(crate) struct Case<'a> {
    pub(crate) world: &'a World,
    pub(crate) scenario: Scenario,
    pub(crate) report: &'a Report,
    pub(crate) name: String,
}

impl Case<'_> {
    /// Makes all checks. The broken client is dead, or has shut down.
    pub(crate) async fn check_all(&self) {
        let (one, other) = (self.world.client(1_000).await, self.world.client(1_000).await);
        let state = self.world.state(&one).await;
        self.check_atomic(&state);
        assert_eq!(self.world.state_by_id(&other).await, state, "{}: two clients see the same", self.name);
        let outcome = self.check_outcome(&one, &state).await;
        self.check_live(&other).await;
        assert_eq!(self.world.state(&one).await, state, "{}: P1, for ever", self.name);
        one.shutdown().await.unwrap();
        other.shutdown().await.unwrap();
        self.check_clean().await;
        let last = self.world.client(1_000).await;
        assert_eq!(self.world.state(&last).await, state, "{}: P1, after the sweep", self.name);
        if let (Some(id), Some(outcome)) = (self.report.id(), outcome) {
            assert_eq!(last.outcome(id).await.unwrap(), outcome, "{}: P9, asked again", self.name);
        }
    }

    /// P1 and P3: all or nothing; what was acknowledged is there, what was refused is not.
    fn check_atomic(&self, state: &State) {
        let (before, after) = (self.scenario.before(), self.scenario.after());
        assert!(*state == before || *state == after, "{}: P1: {state:?}", self.name);
        match self.report.end() {
            None => {}
            Some(End::Committed) => assert_eq!(*state, after, "{}: P3", self.name),
            Some(End::Failed(ErrorKind::Indeterminate)) => {}
            Some(end) => assert_eq!(*state, before, "{}: P9: {end:?}", self.name),
        }
    }

    /// P9: the outcome by id agrees with the documents, once the lease has ended.
    async fn check_outcome(&self, client: &Client, state: &State) -> Option<Outcome> {
        let id = self.report.id()?;
        let outcome = until("an outcome", async || {
            Some(client.outcome(id).await.unwrap()).filter(|outcome| *outcome != Outcome::Active)
        })
        .await;
        let committed = *state == self.scenario.after() && self.scenario != Scenario::Rollback;
        match outcome {
            Outcome::Committed => assert!(committed, "{}: P9: {state:?}", self.name),
            _ => assert!(!committed, "{}: P9: {outcome:?}, {state:?}", self.name),
        }
        if self.report.end() == Some(End::Committed) {
            assert_eq!(outcome, Outcome::Committed, "{}: P9", self.name);
        }
        Some(outcome)
    }

    /// P10: a rival gets at every document, at the latest when the lease ends.
    async fn check_live(&self, client: &Client) {
        let begun = Instant::now();
        let options = TransactionOptions { lock_wait: Duration::from_secs(30), ..TransactionOptions::default() };
        let mut session = client.session_with(options);
        session.begin().unwrap();
        for name in COLLECTIONS {
            let coll = self.world.collection(client, name);
            let all = coll.update_many(doc! {}, doc! {"$inc": {"n": 100}}).session(&mut session).await;
            all.unwrap_or_else(|error| panic!("{}: P10: {error}", self.name));
        }
        session.commit().await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{}: P10: {:?}", self.name, begun.elapsed());
    }

    /// P7: every document is clean, every record closed, nothing else stored.
    pub(crate) async fn check_clean(&self) {
        let sweeper = self.world.client(1_000).await;
        until(&format!("{}: P7", self.name), async || {
            sweeper.sweep().await.unwrap();
            let records = self.world.stored(&self.world.tx_db(), "txs").await;
            records.iter().all(|record| record.contains_key("closedAt")).then_some(())
        })
        .await;
        assert_documents_clean(self.world, &self.name).await;
        assert_eq!(sweeper.sweep().await.unwrap().repaired, 0, "{}: P7: nothing is left to repair", self.name);
    }
}

pub(crate) const RESERVED: [&str; 5] = ["_unsafe", "_xTxId", "_sTxIds", "_insert", "_remove"];

pub(crate) fn is_clean(document: &Document) -> bool {
    !RESERVED.iter().any(|field| document.contains_key(*field)) && document.get("_id") != Some(&Bson::Null)
}

pub(crate) async fn assert_documents_clean(world: &World, name: &str) {
    for coll in COLLECTIONS {
        let unclean: Vec<Document> =
            world.stored(&world.db, coll).await.into_iter().filter(|document| !is_clean(document)).collect();
        assert!(unclean.is_empty(), "{name}: P7: {coll}: {unclean:?}");
    }
}
