//! The collection that is queried, and a second one to look things up in: in a database of the
//! measurement's own.

use bson::{Bson, Document, doc};
use mongodb::{Client, Collection, Database};
use mongotx::drop_record_database;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use sd2v::names::RESERVED;

use super::super::BenchError;

/// Name of the collection that is queried.
pub(crate) const ITEMS: &str = "items";
/// Name of the second collection, which `$lookup` joins.
pub(crate) const OWNERS: &str = "owners";
/// The indexes on one field, which may be mirrored.
pub(crate) const SINGLE: [&str; 2] = ["code", "k"];
/// The key patterns of all indexes, in words.
pub(crate) const INDEXES: &str = "{code: 1}, {k: 1}, {group: 1, k: -1}, {place: \"2dsphere\"}";
/// South-western corner of the points, in degrees of longitude and latitude; they reach [`SPAN`]
/// degrees further.
pub(crate) const CORNER: (f64, f64) = (0.0, 45.0);
/// Width and height of the region of the points, in degrees.
pub(crate) const SPAN: f64 = 10.0;

const BATCH: usize = 5_000;
const NOTE_BYTES: usize = 100;

/// Number of groups of documents: a group has more than any query wants.
pub(crate) fn groups(documents: u32) -> i32 {
    (documents / 1_000).max(5).cast_signed()
}

/// Number of owners that the documents have.
pub(crate) fn owners(documents: u32) -> i32 {
    (documents / 100).cast_signed()
}

/// The collections, loaded, and a client for what is not measured.
pub(crate) struct TestCollection {
    db: Database,
}

impl TestCollection {
    /// Documents 0, 1, 2, … whose `code` and `k` are these numbers, too, each in an order of its
    /// own.
    pub(crate) async fn load(client: &Client, db: &str, documents: u32, seed: u64) -> Result<Self, BenchError> {
        let loaded = Self { db: client.database(db) };
        let mut random = StdRng::seed_from_u64(seed);
        let ids: Vec<i32> = (0..documents.cast_signed()).collect();
        let (mut codes, mut ks) = (ids.clone(), ids.clone());
        codes.shuffle(&mut random);
        ks.shuffle(&mut random);
        let numbers: Vec<(i32, (i32, i32))> = ids.into_iter().zip(codes.into_iter().zip(ks)).collect();
        for numbers in numbers.chunks(BATCH) {
            let items = numbers.iter().map(|(id, (code, k))| item(*id, *code, *k, documents, &mut random));
            loaded.items().insert_many(items.collect::<Vec<_>>()).await?;
        }
        let owners: Vec<Document> =
            (0..owners(documents)).map(|id| doc! {"_id": id, "name": format!("owner {id}")}).collect();
        for owners in owners.chunks(BATCH) {
            loaded.db.collection::<Document>(OWNERS).insert_many(owners).await?;
        }
        Ok(loaded)
    }

    fn items(&self) -> Collection<Document> {
        self.db.collection(ITEMS)
    }

    /// The database of the run.
    pub(crate) fn db(&self) -> &Database {
        &self.db
    }

    /// Average size of a document, in bytes.
    pub(crate) async fn document_bytes(&self) -> Result<u64, BenchError> {
        let stats = self.db.run_command(doc! {"collStats": ITEMS}).await?;
        let bytes = stats.get("avgObjSize").and_then(|size| size.as_i32().map(f64::from).or(size.as_f64()));
        Ok(bytes.unwrap_or_default() as u64)
    }

    /// Fails if a document has anything of a transaction in it.
    pub(crate) async fn check_clean(&self) -> Result<(), BenchError> {
        let any: Vec<Document> = RESERVED.iter().map(|field| doc! {*field: {"$exists": true}}).collect();
        match self.items().count_documents(doc! {"$or": any}).await? {
            0 => Ok(()),
            left => Err(BenchError::Failed(format!("{left} documents are still locked after the rollback"))),
        }
    }

    /// Removes the database of the run.
    pub(crate) async fn drop(self) -> Result<(), BenchError> {
        Ok(drop_record_database(self.db.client(), self.db.name()).await?)
    }
}

fn item(id: i32, code: i32, k: i32, documents: u32, random: &mut StdRng) -> Document {
    doc! {
        "_id": id, "code": code, "k": k,
        "group": random.random_range(0..groups(documents)),
        "owner": random.random_range(0..owners(documents)),
        "place": random_point(random),
        "note": "x".repeat(NOTE_BYTES),
    }
}

/// A point somewhere in the region.
pub(crate) fn random_point(random: &mut StdRng) -> Bson {
    let (longitude, latitude) = CORNER;
    let mut within = |from: f64| from + random.random_range(0.0..SPAN);
    point(within(longitude), within(latitude))
}

/// A point as GeoJSON.
pub(crate) fn point(longitude: f64, latitude: f64) -> Bson {
    Bson::Document(doc! {"type": "Point", "coordinates": [longitude, latitude]})
}
