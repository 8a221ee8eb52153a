//! `mongotx-bench queries`: the same queries through the plain driver and through MongoTx, on one
//! collection.
//!
//! For the application's indexes without and with mirrored ones ([`collection`]):
//!
//! 1. Load the documents, make the indexes, compare both sides' answers with nothing pending
//!    ([`compare`]).
//! 2. For each number of pending documents ([`held`]): measure every shape of query ([`measure`]),
//!    and read which plans the server follows ([`plans`]).
//!
//! [`shape`] has the queries; [`side`] has the two ways to send them.

mod collection;
mod compare;
mod held;
mod measure;
mod plan_line;
mod plans;
mod shape;
mod side;
mod table;

use std::time::Duration;

use benchkit::{
    measure::Machine,
    report::{self, TableArgs, table::Report},
};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use txbench::{server::Bench, targets::Deployment};

use self::{
    collection::TestCollection,
    held::{Holder, HoldingTransaction, PendingDocuments},
    measure::QueryFigures,
    plans::PlanLine,
    shape::Shape,
    side::{MongoTx, Plain},
};
use super::{BenchError, progress};
use crate::say;

/// The arguments of `mongotx-bench queries`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueriesArgs {
    /// Number of documents in the collection.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    documents: u32,
    /// Numbers of documents that an open transaction holds during the measurement
    #[arg(long, value_delimiter = ',', default_value = "0,10,1000", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pending: Vec<u32>,
    /// Client whose open transaction holds the pending documents: another client than the one that
    /// asks, the same one, or several one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "another")]
    held_by: Vec<Holder>,
    /// Whether the indexes on one field are mirrored, so that they find pending documents as well
    #[arg(long, value_delimiter = ',', value_name = "BOOL", default_value = "false,true")]
    mirrored: Vec<bool>,
    /// Least time for which each side of each row is measured, in seconds
    #[arg(long, default_value = "2", value_parser = seconds)]
    seconds: Duration,
    /// Shapes of queries to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    shapes: Vec<Shape>,
    /// Show the server's plans as well, with the least and with the most pending documents
    #[arg(long)]
    explain: bool,
    /// A running server; one is started if none is named.
    #[arg(long)]
    uri: Option<String>,
    /// Seed of the documents that are made, held and asked for.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: TableArgs,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds from 0.01 to 3600".to_owned()),
    }
}

impl QueriesArgs {
    fn check(&self) -> Result<(), BenchError> {
        match self.pending.iter().find(|pending| **pending > self.documents) {
            Some(pending) => {
                let reason = format!("--pending: {pending} is more than there are, {} (--documents)", self.documents);
                Err(BenchError::Failed(reason))
            }
            None => Ok(()),
        }
    }

    /// Pending documents, step by step. Without any, no client holds them, and they are measured
    /// once; and once beside a client that holds none of them.
    fn all_pending(&self) -> Vec<PendingDocuments> {
        let (elsewhere, holders): (Vec<Holder>, Vec<Holder>) =
            self.held_by.iter().copied().partition(|holder| *holder == Holder::Elsewhere);
        let of = |count: u32, holders: &[Holder]| -> Vec<PendingDocuments> {
            holders.iter().map(|holder| PendingDocuments { count, holder: *holder }).collect()
        };
        let step = |count: &u32| of(*count, if *count == 0 { &holders[..1.min(holders.len())] } else { &holders[..] });
        of(0, &elsewhere).into_iter().chain(self.pending.iter().flat_map(step)).collect()
    }

    fn shapes(&self) -> &[Shape] {
        if self.shapes.is_empty() { Shape::value_variants() } else { &self.shapes }
    }

    fn is_explained(&self, pending: u32) -> bool {
        let of = |end: Option<&u32>| end == Some(&pending);
        self.explain && (of(self.pending.iter().min()) || of(self.pending.iter().max()))
    }

    fn facts(&self, server: String, document_bytes: u64) -> Vec<String> {
        let (documents, pending) =
            (self.documents, self.pending.iter().map(u32::to_string).collect::<Vec<_>>().join(", "));
        vec![
            format!("Machine: {}. Client and server share it.", Machine::look()),
            format!("Server: {server}."),
            format!(
                "Documents: {documents} of {document_bytes} bytes on average; indexes: {}. MongoTx always mirrors those of \
                 several fields and geospatial ones.",
                collection::INDEXES
            ),
            format!(
                "Pending: {pending} documents chosen at random, held by an open transaction of {}, which has changed the \
                 note of each and, in every other one, every queried field to a value that no query asks for.",
                self.held_by.iter().map(|holder| holder.title()).collect::<Vec<_>>().join(", or of ")
            ),
            format!(
                "Queries: random constants, the same for both sides; one client; MongoTx at read committed, outside a \
                 transaction; after a warm-up the sides take turns in blocks of up to {} queries, until each has had {} s \
                 or both together {} times as long; seed {}.",
                measure::BLOCK,
                self.seconds.as_secs_f64(),
                measure::PATIENCE,
                self.seed
            ),
        ]
    }
}

/// Findings of a run.
#[derive(Default)]
struct Findings {
    document_bytes: u64,
    lines: Vec<QueryFigures>,
    plans: Vec<PlanLine>,
}

/// Measures everything, and prints it.
pub(crate) async fn run_queries(args: &QueriesArgs) -> Result<(), BenchError> {
    args.check()?;
    let server = Bench::open("--uri", args.uri.as_deref(), Deployment::Standalone).await?;
    let progress = progress::bar((args.mirrored.len() * args.all_pending().len() * args.shapes().len()) as u64);
    let mut findings = Findings::default();
    for mirrored in &args.mirrored {
        with_indexes(args, &server, *mirrored, &progress, &mut findings).await?;
    }
    progress.finish_and_clear();
    let mut tables = vec![table::latencies(findings.lines)];
    if args.explain {
        tables.push(table::plans(findings.plans));
    }
    let facts = args.facts(server.describe().await?, findings.document_bytes);
    let TableArgs { markdown, markdown_file } = &args.output;
    say::line(&report::write_report(&Report { facts, tables }, *markdown, markdown_file.as_deref())?);
    Ok(())
}

/// Measures with indexes: steps 1 and 2.
async fn with_indexes(
    args: &QueriesArgs,
    server: &Bench,
    mirrored: bool,
    progress: &ProgressBar,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    let db = format!("mongotx_bench_queries_{}_{mirrored}", std::process::id());
    progress.set_message(format!("loading {} documents", args.documents));
    let collection = TestCollection::load(&server.admin, &db, args.documents, args.seed).await?;
    let plain = Plain::connect(&server.uri, &db).await?;
    let mongotx = MongoTx::connect(&server.uri, &db).await?;
    mongotx.create_indexes(mirrored).await?;
    findings.document_bytes = collection.document_bytes().await?;
    compare::answers(args, &plain, &mongotx).await?;
    for pending in args.all_pending() {
        let held = match pending.holder {
            Holder::Another => {
                HoldingTransaction::by_another_client(&server.uri, &db, args.documents, pending.count, args.seed)
                    .await?
            }
            Holder::Elsewhere => HoldingTransaction::elsewhere(&server.uri, &db).await?,
            Holder::Same => {
                HoldingTransaction::by_client(mongotx.client(), &db, args.documents, pending.count, args.seed).await?
            }
        };
        for shape in args.shapes() {
            progress.set_message(format!("{}, mirrored: {mirrored}, {pending} pending", shape.title()));
            findings.lines.push(measure::line(args, *shape, mirrored, pending, &plain, &mongotx).await?);
            if args.is_explained(pending.count) {
                let line = plans::line(args, &collection, *shape, mirrored, pending, &plain, &mongotx).await?;
                findings.plans.push(line);
            }
            progress.inc(1);
        }
        held.release().await?;
        collection.check_clean().await?;
    }
    mongotx.close().await?;
    collection.drop().await
}
