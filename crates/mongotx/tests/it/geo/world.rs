//! A collection with a geospatial index, and transactions at work on it: active ones, committed and
//! unfinished ones, those of dead clients, and the one whose view is tested.

use bson::{Bson, Document, doc};
use mongotx::{Client, Collection, Isolation, Session, Step, TransactionOptions};

use crate::geo::{
    queries::{Kind, geo_json, point},
    view::View,
};
use crate::{
    common::{ghost, hooks::Gate, world::World},
    random::Random,
};

/// Number of documents at first; their `_id` modulo five decides which transaction may write them.
const DOCUMENTS: i32 = 60;
const LEASE_MS: u64 = 60_000;

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) kind: Kind,
    pub(crate) raw: mongodb::Collection<Document>,
    pub(crate) client: Client,
    pub(crate) coll: Collection<Document>,
    pub(crate) session: Session,
    /// Documents as they are committed.
    pub(crate) committed: View,
    /// Documents that the session sees.
    pub(crate) own: View,
    unfinished: (Gate, Client),
    active: Vec<(Client, Session)>,
}

pub(crate) fn document(random: &mut Random, kind: Kind, id: i32) -> Document {
    let place = point(random);
    let place: Bson = match kind {
        Kind::Sphere if random.chance(70) => geo_json(place).into(),
        _ => place.to_vec().into(),
    };
    match random.chance(92) {
        true => doc! {"_id": id, "p": place, "k": random.between(0, 5)},
        false => doc! {"_id": id, "k": random.between(0, 5)},
    }
}

impl Scene {
    pub(crate) async fn new(random: &mut Random, kind: Kind, isolation: Isolation) -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let world = World::new(&server.uri(), "geo");
        let raw = world.raw().await.database(&world.db).collection::<Document>("places");
        let committed: View = (0..DOCUMENTS).map(|id| (id, document(random, kind, id))).collect();
        raw.insert_many(committed.values()).await.unwrap();
        make_index(&world, kind).await;
        let client = world.client(LEASE_MS).await;
        let (gate, hook) = Gate::at(Step::BeforeFinish, 1, true);
        let unfinished = (gate, world.client_with(LEASE_MS, hook).await);
        let mut session = client.session();
        session.begin_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() }).unwrap();
        let (coll, own) = (client.database(&world.db).collection("places"), committed.clone());
        Self { world, kind, raw, client, coll, session, committed, own, unfinished, active: Vec::new() }
    }

    /// One rival writes and stays undecided, another writes and dies.
    pub(crate) async fn let_rivals_in(&mut self, random: &mut Random) {
        let client = self.world.client(LEASE_MS).await;
        let coll = self.world.collection(&client, "places");
        let mut session = client.session();
        session.begin().unwrap();
        let seed = random.below(1 << 30) as u64;
        write(&mut Random::of_seed(seed), self.kind, &coll, &mut session, &mut View::new(), 0).await;
        self.active.push((client, session));
        let (world, kind) = (self.world.clone(), self.kind);
        ghost::die(async move || {
            let client = world.client(300).await;
            let coll = world.collection(&client, "places");
            let mut session = client.session();
            session.begin().unwrap();
            write(&mut Random::of_seed(seed + 1), kind, &coll, &mut session, &mut View::new(), 1).await;
            let id = session.id().unwrap();
            std::mem::forget(session);
            id
        })
        .await;
    }

    /// A rival commits and does not finish.
    pub(crate) async fn commit_unfinished(&mut self, random: &mut Random) {
        let client = &self.unfinished.1;
        let coll = self.world.collection(client, "places");
        let mut session = client.session();
        session.begin().unwrap();
        let mut changed = self.committed.clone();
        write(random, self.kind, &coll, &mut session, &mut changed, 2).await;
        session.commit().await.unwrap();
        for id in (0..DOCUMENTS * 4).filter(|id| id % 5 == 2) {
            match changed.get(&id) {
                Some(document) => self.own.insert(id, document.clone()),
                None => self.own.remove(&id),
            };
        }
        self.committed = changed;
    }

    /// Writes in the session's transaction.
    pub(crate) async fn write_own(&mut self, random: &mut Random) {
        write(random, self.kind, &self.coll, &mut self.session, &mut self.own, 3).await;
    }

    pub(crate) async fn end(mut self) {
        self.session.rollback().await.unwrap();
        for (_, session) in &mut self.active {
            session.rollback().await.unwrap();
        }
        self.unfinished.0.open();
        self.world.drop().await;
    }
}

/// The index on unsafe versions is made by the first transaction that writes.
async fn make_index(world: &World, kind: Kind) {
    let kind = if kind == Kind::Sphere { "2dsphere" } else { "2d" };
    let index = doc! {"createIndexes": "places", "indexes": [{"key": {"p": kind}, "name": "place"}]};
    world.raw().await.database(&world.db).run_command(index).await.unwrap();
}

/// Some random writes to the documents of one writer, noted in its view.
async fn write(
    random: &mut Random,
    kind: Kind,
    coll: &Collection<Document>,
    session: &mut Session,
    view: &mut View,
    whose: i32,
) {
    for _ in 0..5 {
        let old = random.between(0, DOCUMENTS / 5 - 1) * 5 + whose;
        let new = DOCUMENTS + random.between(0, DOCUMENTS / 2) * 5 + whose;
        let id = if random.chance(25) { new } else { old };
        let document = document(random, kind, id);
        if random.chance(20) {
            coll.delete_one(doc! {"_id": id}).session(session).await.unwrap();
            view.remove(&id);
        } else {
            coll.replace_one(doc! {"_id": id}, &document).upsert(true).session(session).await.unwrap();
            view.insert(id, document);
        }
    }
}
