//! An operator who stops all servers that are left, reads their logs, and records in one of them
//! the outcome of a transaction whose coordinator is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use super::{plan::Plan, server::Server};
use crate::core::{Decision, Epoch, Key, Known, Record, Recovery, ServerId, TranxId, flaw::Flaw, resolve::records};

/// Parts of the state that were not durable and survive when the servers are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Keeps {
    records: bool,
    items: bool,
}

impl Keeps {
    const ALL: [Self; 4] = [
        Self { records: false, items: false },
        Self { records: false, items: true },
        Self { records: true, items: false },
        Self { records: true, items: true },
    ];

    /// Returns true if there is something to be kept, for each kind that is.
    fn differs(self, servers: &[Server]) -> bool {
        let has_records = servers.iter().any(|server| server.durable < server.log.len());
        let has_items = servers.iter().any(Server::has_unpersisted);
        (has_records || !self.records) && (has_items || !self.items)
    }
}

/// A decision about a transaction that the stopped server `at` is in doubt about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolution {
    pub(super) at: usize,
    pub(super) tranx: TranxId,
    pub(super) decision: Decision,
    pub(super) keeps: Keeps,
}

/// Decisions that the logs allow, when the servers are stopped now.
pub(super) fn resolutions(servers: &[Server], plan: &Plan) -> Vec<Resolution> {
    let mut resolutions = Vec::new();
    let lost = lost(servers);
    if lost.is_empty() {
        return resolutions;
    }
    for keeps in Keeps::ALL.into_iter().filter(|keeps| keeps.differs(servers)) {
        let stopped = stopped(servers, keeps);
        let begin = resolutions.len();
        for (at, server) in stopped.iter().enumerate().filter(|(_, server)| !server.is_ruined) {
            for doubt in server.read(plan).doubts().iter().filter(|doubt| lost.contains(&doubt.tranx.server)) {
                for decision in [Decision::Commit, Decision::Abort] {
                    let resolution = Resolution { at, tranx: doubt.tranx, decision, keeps };
                    if decided(&stopped, plan, resolution).is_some() {
                        resolutions.push(resolution);
                    }
                }
            }
        }
        assert!(plan.flaw.is_some() || agree(&resolutions[begin..]), "two operators decide both ways: {resolutions:?}");
    }
    resolutions
}

/// Returns true if operators who have copies of the same folders, each of whom decides on another
/// server, decide the same.
fn agree(resolutions: &[Resolution]) -> bool {
    let differ = |one: &Resolution, other: &Resolution| {
        one.tranx == other.tranx && one.at != other.at && one.decision != other.decision
    };
    !resolutions.iter().any(|one| resolutions.iter().any(|other| differ(one, other)))
}

/// Stops the servers and records the decision. Returns false if the logs do not allow it.
pub(super) fn resolve(servers: &mut Vec<Server>, plan: &Plan, resolution: Resolution) -> bool {
    *servers = stopped(servers, resolution.keeps);
    let Some(records) = decided(servers, plan, resolution) else { return false };
    let server = &mut servers[resolution.at];
    server.log.extend(records);
    server.durable = server.log.len();
    true
}

/// Records of the decision, if it is not refused.
fn decided(servers: &[Server], plan: &Plan, resolution: Resolution) -> Option<Vec<Record>> {
    let Resolution { at, tranx, decision, .. } = resolution;
    let logs: BTreeMap<ServerId, Recovery> =
        servers.iter().filter(|server| !server.is_ruined).map(|server| (server.id, server.read(plan))).collect();
    let me = servers[at].id;
    let (mut known, mut lost) = (BTreeMap::<ServerId, Known>::new(), lost(servers));
    for server in servers.iter().filter(|server| !server.is_ruined) {
        if plan.flaw == Some(Flaw::ResolvedUnseen) && server.id != me {
            lost.insert(server.id);
        } else {
            known.insert(server.id, known_to(server, &logs[&server.id], plan, tranx));
        }
    }
    let epoch = logs.values().map(Recovery::epochs_through).fold(Epoch(0), Epoch::max);
    let doubt = logs[&me].doubts().into_iter().find(|doubt| doubt.tranx == tranx)?;
    let outcome = doubt.decide(me, decision, &known, &lost, epoch).ok()?;
    Some(records(&BTreeMap::from([(tranx, outcome)]), logs[&me].epochs_through()))
}

/// State of a transaction by a server's log and, if that is in doubt, its items.
fn known_to(server: &Server, log: &Recovery, plan: &Plan, tranx: TranxId) -> Known {
    let version = |key: &Key| Ok::<_, Infallible>(server.items.get(key).map(|item| item.version));
    match (log.known(tranx), log.doubt(tranx)) {
        (Known::InDoubt, Some(mut doubt)) if plan.flaw != Some(Flaw::ResolvedByLogsOnly) => {
            if plan.flaw == Some(Flaw::ResolvedByFirstItem) {
                doubt.writes.truncate(1);
            }
            let Ok(known) = doubt.by_items(version);
            known
        }
        (known, _) => known,
    }
}

/// Servers that are lost with their folders.
pub(super) fn lost(servers: &[Server]) -> BTreeSet<ServerId> {
    servers.iter().filter(|server| server.is_ruined).map(|server| server.id).collect()
}

fn stopped(servers: &[Server], keeps: Keeps) -> Vec<Server> {
    let mut servers = servers.to_vec();
    for server in servers.iter_mut().filter(|server| !server.is_ruined) {
        let kept = if keeps.records { server.log.len() - server.durable } else { 0 };
        server.crash(kept, keeps.items);
    }
    servers
}
