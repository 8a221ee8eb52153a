//! The commands that make the documents of decided transactions clean: one for each collection,
//! with as many documents in a statement as it names.

use std::collections::{BTreeMap, HashSet};

use futures_util::future;
use protocol::Decided;
use sd2v::statement;

use super::{HeldDocuments, work::Part};
use crate::{
    coordinator::{
        finishing::documents,
        request::address::{Address, among},
        server::Server,
    },
    error::Result,
    options::Namespace,
    steps::Step,
};

/// Documents named in one statement.
pub(crate) const IDS_PER_STATEMENT: usize = 1_000;

/// Documents that a transaction has left, and its decision.
pub(super) struct LeftDocuments<'a> {
    pub(super) id: Decided,
    pub(super) committed: bool,
    pub(super) held: &'a [(Namespace, HeldDocuments)],
}

pub(super) fn left_documents(parts: &[Part]) -> Vec<LeftDocuments<'_>> {
    parts
        .iter()
        .map(|part| LeftDocuments { id: part.work.id, committed: part.work.committed, held: &part.held })
        .collect()
}

/// The same documents in groups of one, so that one that the server refuses holds up no other.
pub(super) fn split(held: &[(Namespace, HeldDocuments)]) -> Vec<Vec<(Namespace, HeldDocuments)>> {
    let documents = held.iter().flat_map(|(ns, held)| {
        let flags = HeldDocuments { inserts: held.inserts, removes: held.removes, ..HeldDocuments::default() };
        let written =
            held.written.iter().map(move |at| (ns, HeldDocuments { written: vec![at.clone()], ..flags.clone() }));
        let read =
            held.read.iter().map(move |at| (ns, HeldDocuments { read: vec![at.clone()], ..HeldDocuments::default() }));
        written.chain(read)
    });
    documents.map(|(ns, held)| vec![(ns.clone(), held)]).collect()
}

/// All parts that are finished together, merged by collection.
#[derive(Default)]
struct MergedParts {
    committed: DecidedDocuments,
    rolled_back: DecidedDocuments,
    readers: Vec<Decided>,
    read: Vec<Address>,
}

/// Write-locked documents of transactions with the same outcome.
#[derive(Default)]
struct DecidedDocuments {
    writers: Vec<Decided>,
    at: Vec<Address>,
    deletes: bool,
}

/// Returns how many documents it has finished.
pub(super) async fn finish_all(server: &Server, all: &[LeftDocuments<'_>]) -> Result<usize> {
    match all {
        [one] if one.held.iter().any(|(_, held)| held.written.len() + held.read.len() > IDS_PER_STATEMENT) => {
            finish_large(server, one).await
        }
        all => finish_together(server, all).await,
    }
}

/// Finishes what one transaction has left, as many documents at a time as a statement names: all of
/// them together would take as much memory again.
async fn finish_large(server: &Server, LeftDocuments { id, committed, held }: &LeftDocuments<'_>) -> Result<usize> {
    let mut finished = 0;
    for (ns, held) in *held {
        let flags = HeldDocuments { inserts: held.inserts, removes: held.removes, ..HeldDocuments::default() };
        let written = held.written.chunks(IDS_PER_STATEMENT);
        let written = written.map(|some| HeldDocuments { written: some.to_vec(), ..flags.clone() });
        let read = held
            .read
            .chunks(IDS_PER_STATEMENT)
            .map(|some| HeldDocuments { read: some.to_vec(), ..HeldDocuments::default() });
        for piece in written.chain(read) {
            let held = [(ns.clone(), piece)];
            finished +=
                finish_together(server, &[LeftDocuments { id: *id, committed: *committed, held: &held }]).await?;
        }
    }
    Ok(finished)
}

async fn finish_together(server: &Server, all: &[LeftDocuments<'_>]) -> Result<usize> {
    let mut merged: BTreeMap<&Namespace, MergedParts> = BTreeMap::new();
    for LeftDocuments { id, committed, held } in all {
        for (ns, held) in *held {
            let entry = merged.entry(ns).or_default();
            if !held.written.is_empty() {
                let side = if *committed { &mut entry.committed } else { &mut entry.rolled_back };
                side.writers.push(*id);
                side.at.extend(held.written.iter().cloned());
                side.deletes |= if *committed { held.removes } else { held.inserts };
            }
            if !held.read.is_empty() {
                entry.readers.push(*id);
                entry.read.extend(held.read.iter().cloned());
            }
        }
    }
    // Together, so that what was locked first is not free last. Each goes to its end even if
    // another fails.
    let each = merged.into_iter().map(|(ns, merged)| finish_collection(server, ns, merged));
    future::join_all(each).await.into_iter().sum()
}

async fn finish_collection(server: &Server, ns: &Namespace, merged: MergedParts) -> Result<usize> {
    let MergedParts { mut committed, mut rolled_back, readers, read } = merged;
    let mut finished = 0;
    if !committed.at.is_empty() {
        server.at(Step::BeforeFinish).await;
        finished = clean(server, ns, &mut committed, true).await?;
        server.at(Step::AfterFinish).await;
    }
    if !rolled_back.at.is_empty() {
        server.at(Step::BeforeUndo).await;
        clean(server, ns, &mut rolled_back, false).await?;
        server.at(Step::AfterUndo).await;
    }
    for some in read.chunks(IDS_PER_STATEMENT) {
        server.repair(ns, vec![statement::unlock_readers(among(some), &readers)]).await?.ok()?;
    }
    Ok(finished)
}

async fn clean(server: &Server, ns: &Namespace, side: &mut DecidedDocuments, finishes: bool) -> Result<usize> {
    name_once(&mut side.at);
    let mut cleaned = 0;
    for some in side.at.chunks(IDS_PER_STATEMENT) {
        match finishes {
            true => cleaned += documents::finish_at(server, ns, some, &side.writers, side.deletes).await?,
            false => cleaned += documents::undo(server, ns, &among(some), &side.writers, side.deletes).await?,
        }
    }
    Ok(usize::try_from(cleaned).unwrap_or(0))
}

/// A document that several transactions have changed, one after the other, is named once.
fn name_once(at: &mut Vec<Address>) {
    let mut named = HashSet::new();
    at.retain(|at| at.filter().to_vec().map_or(true, |name| named.insert(name)));
}
