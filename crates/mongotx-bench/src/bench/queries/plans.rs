//! The server's plans for the commands of each side.
//!
//! The server's profile of the measurement's database shows which commands a query was made of;
//! each is then explained.

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongodb::Database;
use rand::{SeedableRng, rngs::StdRng};

use super::{
    super::BenchError,
    QueriesArgs,
    collection::{ITEMS, TestCollection},
    held::PendingDocuments,
    plan_line::one_line,
    shape::{Query, Shape},
    side::{MongoTx, Plain, Side},
};

/// Queries made to find one that sends many commands.
const QUERIES: usize = 20;
/// Commands that are explained; everything else reads or writes records, or fetches what is left of
/// an answer.
const EXPLAINED: [&str; 3] = ["find", "aggregate", "count"];
const PROFILE: &str = "system.profile";
/// Fields that the driver adds to every command, and that cannot be explained.
const ENVELOPE: [&str; 4] = ["$db", "lsid", "$clusterTime", "$readPreference"];

/// The plans for one shape of query.
pub(crate) struct PlanLine {
    pub(crate) shape: Shape,
    pub(crate) mirrored: bool,
    pub(crate) pending: PendingDocuments,
    pub(crate) plain: String,
    pub(crate) mongotx: String,
}

/// Finds a query of this shape that sends many commands, and has them explained.
pub(crate) async fn line(
    args: &QueriesArgs,
    collection: &TestCollection,
    shape: Shape,
    mirrored: bool,
    pending: PendingDocuments,
    plain: &Plain,
    mongotx: &MongoTx,
) -> Result<PlanLine, BenchError> {
    let db = collection.db();
    let mut random = StdRng::seed_from_u64(args.seed);
    let mut longest: Option<(Query, Vec<SentCommand>)> = None;
    for _ in 0..QUERIES {
        let query = shape.query(args.documents, &mut random);
        let sent = profiled(db, mongotx, &query).await?;
        // The first read that may be a little old makes it so; what costs as a rule comes later.
        if shape == Shape::Range20Stale || longest.as_ref().is_none_or(|(_, most)| most.len() < sent.len()) {
            longest = Some((query, sent));
        }
    }
    let Some((query, sent)) = longest else { return Err(BenchError::Failed("nothing was asked".to_owned())) };
    let sent_plainly = profiled(db, plain, &query).await?;
    let (plain, mongotx) = (explained(db, sent_plainly).await?, explained(db, sent).await?);
    Ok(PlanLine { shape, mirrored, pending, plain, mongotx })
}

/// A command that the server has run.
struct SentCommand {
    collection: String,
    command: Document,
}

/// Runs a query once while the server's profiler is on, and returns the commands that it noted.
async fn profiled(db: &Database, side: &dyn Side, query: &Query) -> Result<Vec<SentCommand>, BenchError> {
    db.collection::<Document>(PROFILE).drop().await?;
    db.run_command(doc! {"profile": 2}).await?;
    let asked = side.ask(query.clone()).await;
    db.run_command(doc! {"profile": 0}).await?;
    asked?;
    let noted: Vec<Document> = db
        .collection(PROFILE)
        .find(doc! {"ns": {"$ne": format!("{}.{PROFILE}", db.name())}})
        .await?
        .try_collect()
        .await?;
    Ok(noted.iter().filter_map(SentCommand::read).collect())
}

impl SentCommand {
    fn read(noted: &Document) -> Option<Self> {
        let mut command = noted.get_document("command").ok()?.clone();
        let name = command.keys().next()?.clone();
        let collection = command.get_str(&name).ok()?.to_owned();
        for field in ENVELOPE {
            command.remove(field);
        }
        EXPLAINED.contains(&name.as_str()).then_some(Self { collection, command })
    }
}

/// The plans of these commands in one line.
async fn explained(db: &Database, sent: Vec<SentCommand>) -> Result<String, BenchError> {
    let mut plans = Vec::new();
    for SentCommand { collection, command } in sent {
        let plan = one_line(&db.run_command(doc! {"explain": command, "verbosity": "queryPlanner"}).await?);
        plans.push(if collection == ITEMS { plan } else { format!("{collection}: {plan}") });
    }
    Ok(plans.join(", "))
}
