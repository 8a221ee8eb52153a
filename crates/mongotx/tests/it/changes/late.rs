//! Commits of watched changes of which one command after the other is held in the network: the
//! change and its event are there together, or neither is, even if the caller has stopped waiting.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bson::doc;
use mongotx::{ChangeStreams, Client, ClientOptions, ErrorKind, Session};

use super::Watched;
use crate::late::proxy::Proxy;

const LIMIT: Duration = Duration::from_secs(60);

/// A client behind a network that holds commands, and one beside it.
struct Scene {
    watched: Watched,
    proxy: Proxy,
    client: Client,
}

impl Scene {
    async fn new(name: &str) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
        let commit_timeout = Duration::from_secs(1);
        let change_streams = ChangeStreams::All;
        let options = ClientOptions { change_streams, commit_timeout, ..crate::quiet::options() };
        let watched = Watched::on(server, name, options).await;
        let client = Client::connect_with(&proxy.uri(), watched.options.clone()).await.unwrap();
        let scene = Self { watched, proxy, client };
        // Look-ups that are made once are made now.
        scene.inserting(-1).await.commit().await.unwrap();
        scene
    }

    /// A transaction that has inserted a document.
    async fn inserting(&self, id: i32) -> Session {
        // Nothing is sent for those before any more.
        assert!(self.client.flush(LIMIT).await, "not everything could be finished");
        let mut session = self.client.session();
        session.begin().unwrap();
        let coll = self.client.database(self.watched.plain.name()).collection::<bson::Document>("c");
        coll.insert_one(&doc! {"_id": id}).session(&mut session).await.unwrap();
        session
    }

    /// Returns true if the document is there. Its event must be there if it is.
    async fn is_there_with_its_event(&self, id: i32, position: mongotx::Position) -> bool {
        self.proxy.hold_nothing();
        assert!(self.client.flush(LIMIT).await, "not everything could be finished");
        let is_there = self.watched.coll("c").find_one(doc! {"_id": id}).await.unwrap().is_some();
        let kinds = self.watched.kinds_since(position).await;
        let wanted = if is_there { vec![format!("insert {id}")] } else { Vec::new() };
        assert_eq!(kinds, wanted, "the document is there: {is_there}");
        is_there
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_future_is_dropped_ends_with_its_event() {
    let scene = Scene::new("changes_dropped").await;
    let mut held = Vec::new();
    for place in 0.. {
        let (mut session, position) = (scene.inserting(place).await, scene.watched.now().await);
        let committed_before = scene.client.metrics().commits;
        scene.proxy.hold_after(place as usize);
        let name = tokio::select! {
            biased;
            name = scene.proxy.until_held() => Some(name),
            committed = session.commit() => committed.map(|()| None).unwrap(),
        };
        drop(session);
        let Some(name) = name else { break };
        held.push(name);
        scene.proxy.deliver().await;
        let deadline = Instant::now() + LIMIT;
        while scene.client.metrics().commits == committed_before {
            assert!(Instant::now() < deadline, "the commit did not go on by itself: {held:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(scene.is_there_with_its_event(place, position).await, "{held:?}");
    }
    // The documents are fetched, numbered, their events inserted, and all of it is decided.
    for name in ["find", "findAndModify", "insert", "update"] {
        assert!(held.iter().any(|one| one == name), "{name}: {held:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_gets_no_answer_gives_up_in_time_and_leaves_no_event_alone() {
    let scene = Scene::new("changes_unanswered").await;
    for place in 0.. {
        let (mut session, position) = (scene.inserting(place).await, scene.watched.now().await);
        scene.proxy.hold_after(place as usize);
        let committed = tokio::time::timeout(LIMIT, session.commit()).await.expect("the commit waits for ever");
        drop(session);
        let Err(error) = committed else {
            assert!(place >= 4, "the documents are fetched, numbered, their events inserted, and all of it is decided");
            break;
        };
        assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate), "{error}");
        scene.proxy.deliver().await;
        let is_there = scene.is_there_with_its_event(place, position).await;
        assert!(!is_there || error.kind() == ErrorKind::Indeterminate, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drop_whose_future_is_dropped_leaves_nothing_locked() {
    let scene = Scene::new("changes_drop_dropped").await;
    for place in 0.. {
        let name = format!("d{place}");
        let other = scene.watched.coll("c");
        scene.watched.coll(&name).insert_one(&doc! {"_id": 1}).await.unwrap();
        let dropping = scene.client.database(scene.watched.plain.name()).collection::<bson::Document>(&name);
        assert!(scene.client.flush(LIMIT).await, "not everything could be finished");
        scene.proxy.hold_after(place as usize);
        let held = tokio::select! {
            biased;
            held = scene.proxy.until_held() => Some(held),
            dropped = dropping.drop() => dropped.map(|()| None).unwrap(),
        };
        let Some(held) = held else {
            assert!(place >= 3, "the sequence is locked, the collection dropped, and the event written");
            break;
        };
        scene.proxy.deliver().await;
        // The commit of a watched change, which is numbered in the same sequence.
        let committed = tokio::time::timeout(LIMIT, other.insert_one(&doc! {"_id": 1_000 + place})).await;
        committed.unwrap_or_else(|_| panic!("the sequence stays locked: {held}")).unwrap();
        scene.proxy.hold_nothing();
    }
}
