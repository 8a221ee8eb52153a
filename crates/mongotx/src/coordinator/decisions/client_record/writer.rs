//! The task that sends the writes of one record, one at a time, and finds out what became of those
//! that were not answered.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};

use bson::{Bson, Document, doc, oid::ObjectId};
use protocol::{
    Concern,
    recorder::{RecordWrite, Verdict},
};

use super::{
    Shared,
    live_record::{LiveRecord, NextAction, Refusal},
};
use crate::{
    backoff::Backoff,
    coordinator::{
        log::records::StoredRecord,
        stamps::{
            quiet::{Conditions, disturbs},
            tag::Tag,
        },
        stored::nodes::Nodes,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Runs until the record is lost or retired, or its client is dropped.
pub(super) async fn send_record_writes(shared: Weak<Shared>, live: Arc<LiveRecord>) {
    loop {
        let Some(shared) = shared.upgrade() else { return };
        match live.next_action(shared.bound_to()) {
            NextAction::Sleep(at_most) => {
                drop(shared);
                let _ = tokio::time::timeout(at_most, live.wake.notified()).await;
            }
            NextAction::Write(write, names) => {
                settle(&shared, &live, &write, &names).await;
                live.settled.notify_waiters();
            }
            NextAction::Retire => return retire(&shared, &live).await,
            NextAction::Stop => return shared.lose(live.client),
        }
    }
}

async fn retire(shared: &Shared, live: &LiveRecord) {
    match shared.records.retire(&shared.server, live.client, Some(live.stamp())).await {
        Ok(true) => {}
        // Not what was written last: a sweep looks after what came back with it.
        Ok(false) => return abandon(shared, live).await,
        Err(error) => tracing::warn!(client = %live.client, %error, "the record could not be closed; a sweep will"),
    }
    shared.forget(live.client);
    live.finish_closing();
}

/// Sends one write until it is known what became of it, at most for the commit time limit. What
/// rests on its connection is sent once.
#[tracing::instrument(name = "mongotx.record_write", level = "debug", skip_all, fields(client = %live.client, decides = write.decides.len()))]
async fn settle(shared: &Shared, live: &LiveRecord, write: &RecordWrite, names: &[Namespace]) {
    let deadline = Instant::now() + shared.commit_timeout;
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    // Has a copy of it gone without an answer, so that it may still arrive?
    let mut may_arrive = false;
    loop {
        let is_sent_again = !(write.over.is_some() && may_arrive);
        let answer = match is_sent_again {
            true => Some(attempt(shared, live, write, names, may_arrive, deadline).await),
            false => None,
        };
        match answer {
            Some(Ok(true)) => return,
            Some(Ok(false)) => {}
            Some(Err(_)) | None => {
                may_arrive = true;
                tokio::time::sleep(backoff.next_pause()).await;
            }
        }
        match in_time(deadline, shared.read_durably(&shared.server, live.client)).await {
            Ok(found) => match examine(shared, live, write, found, may_arrive, deadline).await {
                Verdict::GoOn(_) => return,
                Verdict::SendAgain => tokio::time::sleep(FIRST_PAUSE).await,
                Verdict::Lost(_) => return abandon(shared, live).await,
            },
            Err(unread) => {
                tracing::debug!(client = %live.client, error = %unread, "the client record could not be read")
            }
        }
        if Instant::now() >= deadline {
            shared.lose(live.client);
            return live.give_up();
        }
    }
}

/// Sends the write. True: it was applied, and what follows is done. `may_arrive`: a copy of it was
/// not answered.
async fn attempt(
    shared: &Shared,
    live: &LiveRecord,
    write: &RecordWrite,
    names: &[Namespace],
    may_arrive: bool,
    deadline: Instant,
) -> Result<bool> {
    let (before, after) = match write.decides.is_empty() {
        true => (Step::BeforeStamp, Step::AfterStamp),
        false => (Step::BeforeDecision, Step::AfterDecision),
    };
    shared.server.at(before).await;
    let is_patient = !may_arrive && live.is_patient(&write.decides);
    let answer = in_time(deadline, send(shared, live, write, names, is_patient)).await;
    shared.server.at(after).await;
    match &answer {
        Ok(true) => {
            live.note_stamps(&write.decides, write.stamp);
            if let Verdict::Lost(_) = live.acknowledged(shared.epoch.load(SeqCst), names) {
                abandon(shared, live).await;
            }
        }
        Ok(false) => {}
        Err(error) => {
            tracing::debug!(client = %live.client, %error, "a write to the client record was not answered");
            if let Some(connection) = write.over {
                // No transaction may begin by a connection that is gone. (The server may have
                // answered with an error.)
                if !shared.recorder.is_kept_since(connection) {
                    let _ = shared.epoch.compare_exchange(connection, connection + 1, SeqCst, SeqCst);
                }
                live.connection_lost();
            }
        }
    }
    answer
}

/// Reads the record to learn the outcome of a write that was not answered, or refused.
async fn examine(
    shared: &Shared,
    live: &LiveRecord,
    write: &RecordWrite,
    found: Option<StoredRecord>,
    may_arrive: bool,
    deadline: Instant,
) -> Verdict {
    let counters = &shared.server.counters;
    // It cannot be known whether a write that rests on a lost connection was refused.
    let considered = found.as_ref().filter(|_| write.over.is_none() || !may_arrive);
    match considered.map_or(Refusal::Another, |found| live.explain_refusal(write, found, may_arrive)) {
        Refusal::Another => live.examined(found.as_ref().map(|found| &found.record)),
        Refusal::Held(held) => {
            counters.add(&counters.held_back, held as u64);
            Verdict::GoOn(Vec::new())
        }
        Refusal::Withdrawn(withdrawn) => {
            counters.add(&counters.validated_again, withdrawn as u64);
            Verdict::GoOn(Vec::new())
        }
        Refusal::Lift(by) => {
            let lifted = shared.records.lift_quiet(&shared.server, live.client, by);
            if let Err(error) = in_time(deadline, lifted).await {
                tracing::debug!(client = %live.client, %error, "the quiet of a reader could not be ended");
            }
            Verdict::SendAgain
        }
    }
}

/// A server that stands still keeps its connections and answers nothing: the driver would wait for
/// ever.
async fn in_time<T>(deadline: Instant, answer: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Err(Error::new(ErrorKind::Unavailable, "the server did not answer in time"));
    tokio::time::timeout_at(deadline.into(), answer).await.unwrap_or_else(late)
}

/// Fences the record, in which no decision is possible any more, so that rivals know without
/// waiting for the lease.
async fn abandon(shared: &Shared, live: &LiveRecord) {
    shared.lose(live.client);
    tracing::warn!(client = %live.client, "the client record is lost; a new one follows");
    if let Err(error) = shared.records.fence_now(&shared.server, live.client).await {
        tracing::debug!(client = %live.client, %error, "the lost record could not be fenced; its lease will end");
    }
    live.finish_closing();
}

/// Sends one conditional update. Returns true if it was applied.
async fn send(
    shared: &Shared,
    live: &LiveRecord,
    write: &RecordWrite,
    names: &[Namespace],
    is_patient: bool,
) -> Result<bool> {
    let quiet = Quiet { is_patient, conditions: live.conditions(&write.decides) };
    let pipeline = pipeline(write, names, &live.changed_by(&write.decides), &quiet);
    let statement = doc! {"q": {"_id": ObjectId::from_bytes(live.client.0)}, "u": [pipeline]};
    let ns = &shared.records.ns;
    let mut command = doc! {"update": &ns.coll, "updates": [statement]};
    if let Some(concern) = write_concern(&shared.server.nodes, write.concern) {
        command.insert("writeConcern", concern);
    }
    shared.server.counters.add(&shared.server.counters.record_writes, 1);
    let before = shared.epoch.load(SeqCst);
    let answer = match write.over {
        Some(connection) => shared.recorder.write_records_over(ns, command, connection).await?,
        None => shared.recorder.write_records(ns, command).await?,
    };
    shared.note_answered(before);
    Ok(answer.ok()?.modified == 1)
}

/// The rules of a record write about quiet in the record.
struct Quiet {
    /// True if the write waits until quiet is over.
    is_patient: bool,
    /// Conditions of the transactions in the group that have to be validated again after it.
    conditions: Conditions,
}

/// The record afterwards, if it has the stamp that the write demands, is not fenced, none of the
/// group is aborted, and quiet where they have written is heeded; otherwise the record as it was,
/// which counts as not modified. The conditions stand here and not in the query, because a query
/// that says nothing but the `_id` takes the server's shortest way.
fn pipeline(write: &RecordWrite, names: &[Namespace], changed: &BTreeSet<Tag>, quiet: &Quiet) -> Document {
    let numbers = |list: &[u64]| list.iter().map(|n| *n as i64).collect::<Vec<_>>();
    let killed = doc! {"$ifNull": ["$killed", []]};
    let mut conditions =
        vec![doc! {"$eq": ["$stamp", write.demands as i64]}, doc! {"$eq": [{"$type": "$fenced"}, "missing"]}];
    if !write.decides.is_empty() {
        conditions.push(doc! {"$eq": [{"$setIntersection": [killed.clone(), numbers(&write.decides)]}, []]});
    }
    if quiet.is_patient && !changed.is_empty() {
        let stands = doc! {"$and": [{"$eq": ["$quiet.over", false]}, {"$gt": ["$quiet.until", "$$NOW"]}]};
        conditions.push(doc! {"$not": [{"$and": [stands, disturbs(changed)]}]});
    }
    conditions.extend(quiet.conditions.expression());
    let mut fields = doc! {
        "stamp": write.stamp as i64, "low": write.low as i64,
        "committed": numbers(&write.committed), "rolledBack": numbers(&write.rolled_back),
        "killed": {"$filter": {"input": killed, "cond": {"$gte": ["$$this", write.low as i64]}}},
        "beat": "$$NOW",
    };
    if !write.aborted.is_empty() {
        fields.insert("aborted", doc! {"$concatArrays": ["$aborted", numbers(&write.aborted)]});
    }
    if !changed.is_empty() {
        let stamps: Document = changed.iter().map(|tag| (tag.to_string(), Bson::Int64(write.stamp as i64))).collect();
        fields.insert("changes", doc! {"$mergeObjects": ["$changes", stamps]});
    }
    if !names.is_empty() {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        fields.insert("namespaces", doc! {"$setUnion": ["$namespaces", {"$literal": names}]});
    }
    doc! {"$replaceWith": {"$cond": [{"$and": conditions}, {"$mergeObjects": ["$$ROOT", fields]}, "$$ROOT"]}}
}

/// The write concern of a record write. Where several servers keep the data every write of the
/// owner waits for the majority, whatever concern the commit has: others act on a decision as soon
/// as it is known, and its evidence must be of the same line of primaries.
fn write_concern(nodes: &Nodes, concern: Concern) -> Option<Document> {
    Some(match concern {
        _ if nodes.are_several() => nodes.durable(),
        Concern::Acknowledged => return None,
        Concern::Journaled => doc! {"w": 1, "j": true},
        Concern::Nodes(n) => doc! {"w": i64::from(n), "j": true},
        Concern::Majority => doc! {"w": "majority", "j": true},
    })
}
