//! One sequence: random operations on two collections that begin equal, compared after every step.
//!
//! 1. Both collections get the same documents and indexes.
//! 2. Groups of operations, each outside transactions or in one: every answer is compared, and
//!    after every write the whole view.
//! 3. At the end of a transaction no reader outside has seen anything of it. It is committed, and
//!    the stored collections are equal; or it is rolled back, and the stored collection is what it
//!    was. The plain one is then put back.

use std::{collections::BTreeMap, time::Duration};

use bson::{Bson, Document, doc};
use mongotx::{Client, TransactionOptions};

use crate::differential::{
    compare,
    generate::{
        indexes,
        operations::{self, Operations},
        values,
    },
    operation::{Delete, Operation, Query, QueryOptions},
    ours::{Ours, id_of},
    plain::Plain,
    subject::{Answer, Subject},
};
use crate::random::Random;

/// Size and kind of a sequence.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) groups: usize,
    pub(crate) group_size: usize,
    /// `None`: all operations are outside transactions.
    pub(crate) transaction: Option<TransactionOptions>,
    /// Of a hundred transactions, how many are rolled back.
    pub(crate) rolled_back: usize,
    /// A random set of indexes of every kind, instead of some that refuse nothing.
    pub(crate) every_index: bool,
}

/// Counts of what was compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: usize,
    /// Operations that both sides refused.
    pub(crate) refused: usize,
    /// Operations that MongoTx refused as unsupported, by reason: not compared.
    pub(crate) unsupported: BTreeMap<String, usize>,
}

pub(crate) struct Sequence {
    plan: Plan,
    make: Operations,
    plain: Plain,
    ours: Ours,
    /// The collection that `ours` works on, as it is stored.
    stored: Plain,
    client: Client,
    tally: Tally,
    /// The documents before the operation, for messages.
    view: Vec<Document>,
    /// With several unique indexes it is not promised which of them refuses a document.
    several_uniques: bool,
}

const LIMIT: Duration = Duration::from_secs(20);

impl Sequence {
    /// Makes both collections: step 1.
    pub(crate) async fn begin(driver: &mongodb::Client, client: &Client, plan: Plan, seed: u64) -> Self {
        let db = local_mongod::unique_db("differential");
        let mut random = Random::of_seed(seed);
        let specs = match plan.every_index {
            true => indexes::indexes(&mut random),
            false => plain_indexes(&mut random),
        };
        let [plain, stored] = ["plain", "ours"].map(|name| Plain(driver.database(&db).collection(name)));
        let collection = client.database(&db).collection("ours");
        let ours = Ours { collection, session: None };
        let mut documents = starting_documents(&mut random);
        if plan.every_index {
            index_both(driver, &db, &ours, &specs).await;
            documents = insert_both(&plain, &ours, documents).await;
        } else {
            for one in [&plain, &stored] {
                one.0.insert_many(&documents).await.unwrap();
                for spec in &specs {
                    let keys = indexes::key_of(spec);
                    one.0.create_index(mongodb::IndexModel::builder().keys(keys).build()).await.unwrap();
                }
            }
        }
        let indexes: Vec<Document> = specs.iter().map(indexes::key_of).collect();
        let hints = specs.iter().filter(|spec| indexes::may_be_hinted(spec)).map(indexes::key_of).collect();
        let make = Operations { random, indexes, hints };
        let several_uniques = specs.iter().filter(|spec| indexes::is_unique(spec)).count() > 1;
        let client = client.clone();
        Self { plan, make, plain, ours, stored, client, tally: Tally::default(), view: documents, several_uniques }
    }

    pub(crate) async fn run(mut self) -> Result<Tally, String> {
        for _ in 0..self.plan.groups {
            match self.plan.transaction.clone() {
                None => self.group().await?,
                Some(options) => self.transaction(options).await?,
            }
        }
        self.same_as_stored("at the end").await?;
        let _ = self.plain.0.drop().await;
        let _ = self.stored.0.drop().await;
        Ok(self.tally)
    }

    /// Runs a group of operations: step 2.
    async fn group(&mut self) -> Result<(), String> {
        for _ in 0..self.plan.group_size {
            let operation = self.make.next();
            self.step(&operation).await?;
        }
        Ok(())
    }

    /// Runs a group in a transaction: step 3.
    async fn transaction(&mut self, options: TransactionOptions) -> Result<(), String> {
        let before = self.plain.all().await;
        let mut session = self.client.session_with(options);
        session.begin().unwrap();
        self.ours.session = Some(session);
        let group = self.group().await;
        let mut session = self.ours.session.take().unwrap();
        group?;
        self.unseen_outside(&before).await?;
        if self.make.random.chance(self.plan.rolled_back) {
            session.rollback().await.map_err(|error| format!("the rollback fails: {error}"))?;
            self.put_back(&before).await;
            return self.same_as_stored("after the rollback").await;
        }
        session.commit().await.map_err(|error| format!("the commit fails: {error}"))?;
        self.same_as_stored("after the commit").await
    }

    async fn unseen_outside(&mut self, before: &[Document]) -> Result<(), String> {
        let seen = self.ours.run(&everything()).await;
        let count = self.ours.run(&Operation::Count(Query::default())).await;
        let expected = Answer::Documents(before.to_vec());
        differs(&expected, &seen, false, "outside the open transaction")?;
        differs(&Answer::Count(before.len() as u64), &count, true, "counted outside the open transaction")
    }

    async fn put_back(&mut self, before: &[Document]) {
        self.plain.0.delete_many(doc! {}).await.unwrap();
        if !before.is_empty() {
            self.plain.0.insert_many(before).await.unwrap();
        }
        self.view = before.to_vec();
    }

    async fn step(&mut self, operation: &Operation) -> Result<(), String> {
        self.tally.operations += 1;
        let ours = self.ours.run(operation).await;
        if let Answer::Unsupported(reason) = ours {
            let reason = reason.split(" [transaction").next().unwrap_or_default();
            *self.tally.unsupported.entry(reason.to_owned()).or_default() += 1;
            return self.same_views(operation).await;
        }
        let mut plain = self.plain.run(operation).await;
        if let (Answer::Refused { duplicate, .. }, true) = (&mut plain, self.several_uniques) {
            *duplicate = None;
        }
        self.tally.refused += usize::from(matches!(plain, Answer::Refused { .. }));
        let stopped = operation.updates_many() && compare::both_refused(&plain, &ours);
        if !stopped && let Some(difference) = compare::difference(&plain, &ours, operation.is_ordered()) {
            return Err(self.report(operation, &difference));
        }
        if operation.updates_many() && matches!(plain, Answer::Refused { .. }) {
            self.level(operation).await?;
        }
        if operation.is_write() { self.same_views(operation).await } else { Ok(()) }
    }

    /// After an update of many that stopped half way: each document is as it was or as it should
    /// be, and the plain collection takes over which is which.
    async fn level(&mut self, operation: &Operation) -> Result<(), String> {
        let (plain, ours) = (self.plain.run(&everything()).await, self.ours.run(&everything()).await);
        let (Answer::Documents(plain), Answer::Documents(ours)) = (plain, ours) else {
            return Err(self.report(operation, "the documents cannot be read afterwards"));
        };
        let is_in = |one: &Document, all: &[Document]| all.iter().any(|other| compare::same(one, other));
        let unchanged = |id: &Bson| plain.iter().any(|one| id_of(one) == *id && is_in(one, &self.view));
        let strange = ours.iter().find(|one| !is_in(one, &plain) && !is_in(one, &self.view) && !unchanged(&id_of(one)));
        if let (Some(strange), Operation::Update(_)) = (strange, operation) {
            return Err(self.report(operation, &format!("neither changed nor unchanged: {strange}")));
        }
        self.put_back(&ours).await;
        Ok(())
    }

    async fn same_views(&mut self, operation: &Operation) -> Result<(), String> {
        let (plain, ours) = (self.plain.run(&everything()).await, self.ours.run(&everything()).await);
        if let Some(difference) = compare::difference(&plain, &ours, false) {
            return Err(self.report(operation, &format!("the documents afterwards\n{difference}")));
        }
        let made = [remove_made_anew(&mut self.plain, &plain).await, remove_made_anew(&mut self.ours, &ours).await];
        if made[0] != made[1] {
            return Err(self.report(operation, "documents with ids of the server cannot be deleted"));
        }
        self.view = if let Answer::Documents(documents) = plain { documents } else { Vec::new() };
        Ok(())
    }

    fn report(&self, operation: &Operation, difference: &str) -> String {
        let before: Vec<String> = self.view.iter().map(|document| format!("\n    {document}")).collect();
        format!(
            "operation {}:\n{operation:?}\n{difference}\nbefore: {}\nindexes: {:?}",
            self.tally.operations,
            before.concat(),
            self.make.indexes
        )
    }

    async fn same_as_stored(&mut self, when: &str) -> Result<(), String> {
        if !self.client.flush(LIMIT).await {
            return Err(format!("{when}: not finished within {LIMIT:?}"));
        }
        let (plain, ours) = (self.plain.all().await, self.stored.all().await);
        let what = format!("stored {when}, after {} operations", self.tally.operations);
        differs(&Answer::Documents(plain), &Answer::Documents(ours), false, &what)
    }
}

/// Some of the indexes that refuse nothing.
fn plain_indexes(random: &mut Random) -> Vec<Document> {
    let keys = operations::indexes().into_iter().filter(|_| random.chance(35));
    keys.map(|key| doc! {"key": key}).collect()
}

/// Through MongoTx on its side.
async fn index_both(driver: &mongodb::Client, db: &str, ours: &Ours, specs: &[Document]) {
    if specs.is_empty() {
        return;
    }
    driver.database(db).run_command(doc! {"createIndexes": "plain", "indexes": specs.to_vec()}).await.unwrap();
    for spec in specs {
        let mut model = mongotx::IndexModel::new(indexes::key_of(spec));
        for (option, value) in spec.iter().filter(|(option, _)| *option != "key") {
            model = model.option(option, value.clone());
        }
        ours.collection.create_index(model).await.unwrap();
    }
}

/// Inserts the documents into both, one by one; returns those that the indexes take.
async fn insert_both(plain: &Plain, ours: &Ours, documents: Vec<Document>) -> Vec<Document> {
    let mut taken = Vec::new();
    for document in documents {
        let by_plain = plain.0.insert_one(&document).await.is_ok();
        let by_ours = ours.collection.insert_one(&document).await;
        assert_eq!(by_plain, by_ours.is_ok(), "{document}: {by_ours:?}");
        if by_plain {
            taken.push(document);
        }
    }
    taken
}

fn starting_documents(random: &mut Random) -> Vec<Document> {
    let mut documents: Vec<Document> = Vec::new();
    for document in (0..14).map(|_| values::document(random)).collect::<Vec<_>>() {
        if documents.iter().all(|other| id_of(other) != id_of(&document)) {
            documents.push(document);
        }
    }
    documents
}

fn everything() -> Operation {
    Operation::Find(Query { sort: Some(doc! {"_id": 1}), ..Query::default() })
}

fn differs(plain: &Answer, ours: &Answer, ordered: bool, what: &str) -> Result<(), String> {
    compare::difference(plain, ours, ordered).map_or(Ok(()), |difference| Err(format!("{what}:\n{difference}")))
}

/// At most one document may have an id that the server made: among several, their order would be
/// left to chance. Returns how many were deleted.
async fn remove_made_anew(subject: &mut impl Subject, view: &Answer) -> Option<u64> {
    let Answer::Documents(documents) = view else { return None };
    let made: Vec<_> = documents.iter().map(id_of).filter(compare::is_made_anew).collect();
    if made.len() < 2 {
        return Some(0);
    }
    let delete = Delete { filter: doc! {"_id": {"$in": made}}, many: true, options: QueryOptions::default() };
    match subject.run(&Operation::Delete(delete)).await {
        Answer::Written(done) => Some(done.deleted),
        _ => None,
    }
}
