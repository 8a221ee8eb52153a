//! Random pipelines through MongoTx and through the plain driver, which finds the same documents
//! written plainly.
//!
//! Two databases hold the collections `c` and `d`. Before each few pipelines both are changed in
//! the same way: plainly; by a rival that has committed and not finished; by the reading
//! transaction; or, in one of them only, by a rival that is still active.

use std::{collections::BTreeMap, sync::Arc};

use bson::{Document, RawDocumentBuf, doc};
use futures_util::{TryStreamExt, future::BoxFuture};
use mongodb::options::{AggregateOptions, IndexOptions};
use mongotx::{Client, ClientOptions, Collection, Isolation, Session, Step, StepHook, TransactionOptions};
use tokio::sync::Semaphore;

use crate::differential::{
    compare,
    generate::{
        filters,
        operations::{self, Operations},
        pipelines::{self, COLLECTIONS},
        values,
    },
    number_from,
    operation::{Delete, Operation, Update},
    ours::{Ours, id_of},
    plain::Plain,
    subject::{Answer, Subject},
};
use crate::random::Random;

/// Way in which the documents got into their state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Plain,
    Unfinished,
    ByActiveRival,
    Own,
}

const ROUNDS: usize = 3;
const PIPELINES: usize = 8;

/// Keeps every document from being finished before the test is over.
struct Unfinished(Semaphore);

impl StepHook for Unfinished {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let holds = step == Step::BeforeFinish && self.0.available_permits() == 0;
        Box::pin(async move {
            if holds {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[derive(Debug, Default)]
struct Tally {
    pipelines: usize,
    refused: usize,
    unsupported: BTreeMap<String, usize>,
}

/// One pipeline with its options.
#[derive(Debug)]
struct Asked {
    /// `None`: a pipeline of the database.
    collection: Option<&'static str>,
    stages: Vec<Document>,
    variables: Option<Document>,
    collation: Option<Document>,
}

fn ask(random: &mut Random) -> Asked {
    let mut asked = Asked {
        collection: Some(pipelines::source(random)),
        stages: pipelines::pipeline(random),
        variables: None,
        collation: None,
    };
    match random.below(12) {
        0 => {
            let (filter, variables) = filters::with_variables(random);
            asked.stages.insert(0, doc! {"$match": filter});
            asked.variables = Some(variables);
        }
        1 => asked.collation = Some(doc! {"locale": "en"}),
        2 => asked = Asked { collection: None, stages: pipelines::on_documents(random), ..asked },
        _ => {}
    }
    asked
}

struct Sequence {
    make: Operations,
    plain: mongodb::Database,
    stored: mongodb::Database,
    client: Client,
    rival: Client,
    unfinished: Client,
    tally: Tally,
}

impl Sequence {
    async fn begin(server: &local_mongod::Server, client: &Client, seed: u64) -> Self {
        let driver = server.client().await.unwrap();
        let [plain, stored] = ["plain", "ours"].map(|name| driver.database(&local_mongod::unique_db(name)));
        let mut random = Random::of_seed(seed);
        let indexes: Vec<Document> = operations::indexes().into_iter().filter(|_| random.chance(35)).collect();
        for name in COLLECTIONS {
            let documents = starting_documents(&mut random);
            for database in [&plain, &stored] {
                let collection = database.collection::<Document>(name);
                collection.insert_many(&documents).await.unwrap();
                for keys in &indexes {
                    let options = IndexOptions::default();
                    let index = mongodb::IndexModel::builder().keys(keys.clone()).options(options).build();
                    collection.create_index(index).await.unwrap();
                }
            }
        }
        for (view, on, pipeline) in pipelines::views() {
            for database in [&plain, &stored] {
                let create = doc! {"create": view, "viewOn": on, "pipeline": pipeline.clone()};
                database.run_command(create).await.unwrap();
            }
        }
        let options = ClientOptions { sweep: false, ..crate::quiet::at_read_committed() };
        let rival = Client::connect_with(&server.uri(), options.clone()).await.unwrap();
        let hook: Arc<dyn StepHook> = Arc::new(Unfinished(Semaphore::new(0)));
        let options = ClientOptions { hook: Some(hook), ..options };
        let unfinished = Client::connect_with(&server.uri(), options).await.unwrap();
        let make = Operations { random, indexes: Vec::new(), hints: Vec::new() };
        Self { make, plain, stored, client: client.clone(), rival, unfinished, tally: Tally::default() }
    }

    async fn run(mut self, change: Change, isolation: Isolation) -> Result<Tally, String> {
        for _ in 0..ROUNDS {
            let options = || TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
            let mut session = self.client.session_with(options());
            session.begin().unwrap();
            let mut rivals = match change {
                Change::Plain | Change::Own => None,
                Change::Unfinished => Some(self.unfinished.session()),
                Change::ByActiveRival => Some(self.rival.session()),
            };
            session = self.change(change, session, rivals.as_mut()).await?;
            if let (Change::Unfinished, Some(rival)) = (change, rivals.as_mut()) {
                rival.commit().await.map_err(|error| format!("the rival: {error}"))?;
            }
            let inside = change == Change::Own || isolation == Isolation::RepeatableRead || self.make.random.chance(30);
            for _ in 0..PIPELINES {
                let asked = ask(&mut self.make.random);
                self.compare(&asked, inside.then_some(&mut session)).await?;
            }
            session.commit().await.map_err(|error| format!("the commit: {error}"))?;
            if let (Change::ByActiveRival, Some(mut rival)) = (change, rivals) {
                rival.rollback().await.map_err(|error| format!("the rival: {error}"))?;
            }
        }
        let _ = (self.plain.drop().await, self.stored.drop().await);
        Ok(self.tally)
    }

    /// Changes both databases; returns the session of the reading transaction.
    async fn change(
        &mut self,
        change: Change,
        mut session: Session,
        mut rival: Option<&mut Session>,
    ) -> Result<Session, String> {
        if let Some(rival) = rival.as_deref_mut() {
            rival.begin().unwrap();
        }
        for _ in 0..5 {
            let name = *self.make.random.pick(&COLLECTIONS);
            let operation = self.simple_write();
            let plain = Plain(self.plain.collection(name));
            match change {
                Change::Plain => {
                    Plain(self.stored.collection(name)).run(&operation).await;
                    { plain }.run(&operation).await;
                }
                Change::Own => {
                    let done = write(&self.client, &self.stored, name, &mut session, &operation).await?;
                    if done {
                        { plain }.run(&operation).await;
                    }
                }
                Change::Unfinished | Change::ByActiveRival => {
                    let Some(rival) = rival.as_deref_mut() else { continue };
                    let client = if change == Change::Unfinished { &self.unfinished } else { &self.rival };
                    let done = write(client, &self.stored, name, rival, &operation).await?;
                    if done && change == Change::Unfinished {
                        { plain }.run(&operation).await;
                    }
                }
            }
        }
        Ok(session)
    }

    /// A write of one document that gives nothing a new `_id`.
    fn simple_write(&mut self) -> Operation {
        loop {
            let write = self.make.next();
            let simple = matches!(
                write,
                Operation::InsertOne(_)
                    | Operation::Update(Update { many: false, upsert: false, .. })
                    | Operation::Delete(Delete { many: false, .. })
            );
            if simple && !format!("{write:?}").contains("$currentDate") && !has_extreme_key(&write) {
                return write;
            }
        }
    }

    async fn compare(&mut self, asked: &Asked, session: Option<&mut Session>) -> Result<(), String> {
        self.tally.pipelines += 1;
        let ours = self.ours(asked, session).await;
        if let Answer::Unsupported(reason) = ours {
            let reason = reason.split(" [transaction").next().unwrap_or_default();
            *self.tally.unsupported.entry(reason.to_owned()).or_default() += 1;
            return Ok(());
        }
        let plain = plainly(&self.plain, asked).await;
        self.tally.refused += usize::from(matches!(plain, Answer::Refused { .. }));
        // At which of several documents it stops, and so with which code, is not promised.
        if compare::both_refused(&plain, &ours) {
            return Ok(());
        }
        match compare::difference(&plain, &ours, false) {
            None => Ok(()),
            Some(difference) => {
                Err(format!("pipeline {}:\n{asked:?}\n{difference}{}", self.tally.pipelines, self.state().await))
            }
        }
    }

    async fn ours(&self, asked: &Asked, session: Option<&mut Session>) -> Answer {
        let database = self.client.database(self.stored.name());
        let collection: Option<Collection<Document>> = asked.collection.map(|name| database.collection(name));
        let mut action = match &collection {
            Some(collection) => collection.aggregate(asked.stages.clone()),
            None => database.aggregate(asked.stages.clone()),
        };
        if let Some(variables) = &asked.variables {
            action = action.let_vars(variables.clone());
        }
        if let Some(collation) = &asked.collation {
            action = action.collation(collation.clone());
        }
        if let Some(session) = session {
            action = action.session(session);
        }
        let done = async { action.await?.try_collect().await };
        done.await.map_or_else(crate::differential::ours::refused, |found| answer(asked, found))
    }

    /// The state in words, for messages.
    async fn state(&self) -> String {
        let mut state = String::new();
        for (of, database) in [("plain", &self.plain), ("stored", &self.stored)] {
            for name in COLLECTIONS {
                let found = database.collection::<RawDocumentBuf>(name).find(doc! {}).await.unwrap();
                let all: Vec<RawDocumentBuf> = found.try_collect().await.unwrap();
                let all = all.into_iter().map(|raw| Document::try_from(raw).unwrap());
                let lines: Vec<String> = all.map(|document| format!("\n    {document}")).collect();
                state.push_str(&format!("\n{of} {name}:{}", lines.concat()));
            }
        }
        state
    }
}

/// Order within arrays often follows from the order of documents, which is not promised. Where
/// `$lookup` puts a field that is there already depends on how the server runs it.
fn answer(asked: &Asked, documents: Vec<Document>) -> Answer {
    let any_order = format!("{:?}", asked.stages).contains("$lookup");
    Answer::Values(documents.into_iter().map(|document| compare::loose(&document.into(), any_order)).collect())
}

async fn plainly(database: &mongodb::Database, asked: &Asked) -> Answer {
    let collation = asked.collation.clone().map(|collation| bson::deserialize_from_document(collation).unwrap());
    let options =
        AggregateOptions::builder().allow_disk_use(true).let_vars(asked.variables.clone()).collation(collation).build();
    let done = async {
        let cursor = match asked.collection {
            Some(name) => {
                database.collection::<Document>(name).aggregate(asked.stages.clone()).with_options(options).await?
            }
            None => database.aggregate(asked.stages.clone()).with_options(options).await?,
        };
        let found: Vec<RawDocumentBuf> = cursor.with_type().try_collect().await?;
        Ok(found.into_iter().map(|raw| Document::try_from(raw).unwrap()).collect())
    };
    done.await.map_or_else(crate::differential::plain::refused, |found| answer(asked, found))
}

/// A write in a transaction; false when it is not supported there.
async fn write(
    client: &Client,
    database: &mongodb::Database,
    name: &str,
    session: &mut Session,
    operation: &Operation,
) -> Result<bool, String> {
    let collection = client.database(database.name()).collection(name);
    let mut ours = Ours { collection, session: None };
    let placeholder = client.session();
    ours.session = Some(std::mem::replace(session, placeholder));
    let answer = ours.run(operation).await;
    *session = ours.session.take().unwrap();
    match answer {
        Answer::Unsupported(_) => Ok(false),
        Answer::Failed(why) => Err(format!("{operation:?}: {why}")),
        _ => Ok(true),
    }
}

/// A `$lookup` that the server runs in its other engine answers `{"": MinKey}` for `MinKey`.
fn has_extreme_key(value: &impl std::fmt::Debug) -> bool {
    let shown = format!("{value:?}");
    shown.contains("MinKey") || shown.contains("MaxKey")
}

fn starting_documents(random: &mut Random) -> Vec<Document> {
    let mut documents: Vec<Document> = Vec::new();
    for document in (0..12).map(|_| values::document(random)).collect::<Vec<_>>() {
        if !has_extreme_key(&document) && documents.iter().all(|other| id_of(other) != id_of(&document)) {
            documents.push(document);
        }
    }
    documents
}

async fn compare_pipelines(test: &str, runs: u64, change: Change, isolation: Isolation) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), crate::quiet::at_read_committed()).await.unwrap();
    let options = Compared { test, runs, change, isolation };
    compare_pipelines_of(&client, server, options).await;
}

/// Random pipelines of one kind.
#[derive(Clone, Copy)]
struct Compared<'a> {
    test: &'a str,
    runs: u64,
    change: Change,
    isolation: Isolation,
}

async fn compare_pipelines_of(client: &Client, server: &local_mongod::Server, compared: Compared<'_>) {
    let Compared { test, runs, change, isolation } = compared;
    let seeds = match number_from("MONGOTX_DIFF_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("MONGOTX_DIFF_RUNS").unwrap_or(runs),
    };
    let (mut total, mut failures) = (Tally::default(), Vec::new());
    for seed in seeds {
        match Sequence::begin(server, client, seed).await.run(change, isolation).await {
            Ok(tally) => {
                total.pipelines += tally.pipelines;
                total.refused += tally.refused;
                for (reason, times) in tally.unsupported {
                    *total.unsupported.entry(reason).or_default() += times;
                }
            }
            Err(failure) => failures.push(format!("MONGOTX_DIFF_SEED={seed}, test {test}, {failure}")),
        }
    }
    println!("{test}: {total:?}");
    assert!(failures.is_empty(), "{} sequences differ\n\n{}", failures.len(), failures.join("\n\n"));
    let unsupported = total.unsupported.values().sum::<usize>();
    assert!(unsupported * 6 <= total.pipelines, "too much is not supported: {total:?}");
    assert!(total.refused * 3 <= total.pipelines, "too much is refused: {total:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_of_a_client_that_is_alone_answer_as_the_drivers() {
    let (server, client) = super::alone().await;
    let before = client.metrics().unprobed;
    let test = "pipelines_of_a_client_that_is_alone_answer_as_the_drivers";
    let compared = Compared { test, runs: 6, change: Change::Plain, isolation: Isolation::ReadCommitted };
    compare_pipelines_of(&client, &server, compared).await;
    compare_pipelines_of(&client, &server, Compared { change: Change::Own, runs: 3, ..compared }).await;
    assert!(client.metrics().unprobed > before, "every pipeline was probed");
}

#[tokio::test]
async fn pipelines_with_nothing_pending_answer_as_the_drivers() {
    let test = "pipelines_with_nothing_pending_answer_as_the_drivers";
    compare_pipelines(test, 8, Change::Plain, Isolation::ReadCommitted).await;
}

#[tokio::test]
async fn pipelines_at_repeatable_read_answer_as_the_drivers() {
    let test = "pipelines_at_repeatable_read_answer_as_the_drivers";
    compare_pipelines(test, 7, Change::Plain, Isolation::RepeatableRead).await;
}

#[tokio::test]
async fn pipelines_see_what_rivals_have_committed_and_not_finished() {
    let test = "pipelines_see_what_rivals_have_committed_and_not_finished";
    compare_pipelines(test, 9, Change::Unfinished, Isolation::ReadCommitted).await;
}

#[tokio::test]
async fn pipelines_at_repeatable_read_see_what_rivals_have_committed_and_not_finished() {
    let test = "pipelines_at_repeatable_read_see_what_rivals_have_committed_and_not_finished";
    compare_pipelines(test, 7, Change::Unfinished, Isolation::RepeatableRead).await;
}

#[tokio::test]
async fn pipelines_see_nothing_of_active_rivals() {
    let test = "pipelines_see_nothing_of_active_rivals";
    compare_pipelines(test, 9, Change::ByActiveRival, Isolation::ReadCommitted).await;
}

#[tokio::test]
async fn pipelines_see_own_writes() {
    compare_pipelines("pipelines_see_own_writes", 10, Change::Own, Isolation::ReadCommitted).await;
}

#[tokio::test]
async fn pipelines_see_own_writes_at_repeatable_read() {
    compare_pipelines("pipelines_see_own_writes_at_repeatable_read", 7, Change::Own, Isolation::RepeatableRead).await;
}
