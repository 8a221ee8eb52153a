//! Two collections with the same text index: one that transactions work on, and a plain copy of
//! what is to be seen of it.

use bson::{Document, doc};
use mongotx::{Client, Collection, Isolation, Session, Step, TransactionOptions};

use crate::{
    common::{hooks::Gate, world::World},
    random::Random,
};

pub(crate) const LEASE_MS: u64 = 60_000;
const WORDS: [&str; 12] =
    ["apple", "Apples", "tea", "green tea", "the", "running", "run", "Ärger", "arger", "blueberry", "pie", "tree"];

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) client: Client,
    pub(crate) ours: Collection<Document>,
    pub(crate) plain: mongodb::Collection<Document>,
    pub(crate) stored: mongodb::Collection<Document>,
    gate: Gate,
    unfinished: Client,
    active: (Client, Session),
}

pub(crate) fn words(random: &mut Random) -> String {
    let count = 1 + random.below(5);
    (0..count).map(|_| *random.pick(&WORDS)).collect::<Vec<&str>>().join(" ")
}

pub(crate) fn document(random: &mut Random, id: i32) -> Document {
    let mut document = doc! {"_id": id, "k": random.between(0, 3), "s": words(random)};
    if random.chance(60) {
        document.insert("d", doc! {"t": [words(random), words(random)]});
    }
    if random.chance(15) {
        document.insert("lang", *random.pick(&["german", "none", "en"]));
    }
    document
}

impl Scene {
    /// Some documents; the first four are held by an active transaction.
    pub(crate) async fn new(random: &mut Random) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let world = World::new(&server.uri(), "text");
        let raw = world.raw().await.database(&world.db);
        let documents: Vec<Document> = (0..40).map(|id| document(random, id)).collect();
        for name in ["a", "plain"] {
            let index = doc! {
                "key": {"s": "text", "d.t": "text"}, "name": "words", "weights": {"s": 5}, "language_override": "lang",
            };
            raw.run_command(doc! {"createIndexes": name, "indexes": [index]}).await.unwrap();
            raw.collection::<Document>(name).insert_many(&documents).await.unwrap();
        }
        let client = world.client(LEASE_MS).await;
        let (gate, hook) = Gate::at(Step::BeforeFinish, 1, true);
        let unfinished = world.client_with(LEASE_MS, hook).await;
        let rival = world.client(LEASE_MS).await;
        let mut session = rival.session();
        session.begin().unwrap();
        let theirs = world.collection(&rival, "a");
        for id in 0..4 {
            theirs.replace_one(doc! {"_id": id}, &document(random, id)).session(&mut session).await.unwrap();
        }
        theirs.insert_one(&document(random, 400)).session(&mut session).await.unwrap();
        theirs.delete_one(doc! {"_id": 4}).session(&mut session).await.unwrap();
        let ours = world.collection(&client, "a");
        let (plain, stored) = (raw.collection("plain"), raw.collection("a"));
        Self { world, client, ours, plain, stored, gate, unfinished, active: (rival, session) }
    }

    /// Rolls the rival back: no transaction is active any more.
    pub(crate) async fn roll_rival_back(&mut self) {
        self.active.1.rollback().await.unwrap();
    }

    /// A rival changes some documents, commits, and does not finish.
    pub(crate) async fn commit_unfinished(&self, random: &mut Random) {
        let theirs = self.world.collection(&self.unfinished, "a");
        let mut session = self.unfinished.session();
        session.begin().unwrap();
        for id in (10..14).chain([410 + random.between(0, 80)]) {
            let document = document(random, id);
            let by_id = doc! {"_id": id};
            theirs.replace_one(by_id.clone(), &document).upsert(true).session(&mut session).await.unwrap();
            self.plain.replace_one(by_id, document).upsert(true).await.unwrap();
        }
        session.commit().await.unwrap();
    }

    pub(crate) fn begin(&self, isolation: Isolation) -> Session {
        let mut session = self.client.session();
        session.begin_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() }).unwrap();
        session
    }

    /// The session changes some documents, and so does the plain driver.
    pub(crate) async fn write_own(&self, random: &mut Random, session: &mut Session) {
        for _ in 0..4 {
            let id = if random.chance(30) { random.between(500, 520) } else { random.between(20, 39) };
            let by_id = doc! {"_id": id};
            if random.chance(25) {
                self.ours.delete_one(by_id.clone()).session(session).await.unwrap();
                self.plain.delete_one(by_id).await.unwrap();
            } else {
                let document = document(random, id);
                self.ours.replace_one(by_id.clone(), &document).upsert(true).session(session).await.unwrap();
                self.plain.replace_one(by_id, document).upsert(true).await.unwrap();
            }
        }
    }

    /// Scratch collections that are there.
    pub(crate) async fn scratch(&self) -> Vec<String> {
        let mut names = self.world.raw().await.database(&self.world.db).list_collection_names().await.unwrap();
        names.retain(|name| name.starts_with("_mongotx_text."));
        names
    }

    pub(crate) async fn end(self) {
        assert_eq!(self.scratch().await, Vec::<String>::new());
        drop(self.active);
        self.gate.open();
        self.world.drop().await;
    }
}
