//! Activity at this gateway now, as JSON for the page.

use std::{collections::HashSet, time::Duration};

use mongotx::{TxId, Wait};
use serde_json::{Value, json};

use crate::{
    access::User,
    activity::{
        ClientIdentity,
        transactions::{EndedTransaction, Snapshot},
    },
    context::Context,
    metrics::history::{CommandKind, SecondFigures},
    operations::{Kind, Operation, OperationFilter, running_operations},
    session::Lsid,
};

/// The most operations that are looked at, and of these the most that are shown: those that wait
/// first, then the longest.
const MOST_SEEN: usize = 2_000;
const MOST_SHOWN: usize = 100;

/// All that the page shows. `since`: the end of the last second that it knows, in milliseconds
/// since 1970.
pub(super) fn state(context: &Context, since: u64, user: Option<&User>, clients: &Value) -> Value {
    let wanted = OperationFilter { user: None, idle_connections: false, idle_transactions: true, most: MOST_SEEN };
    let mut found = running_operations(&context.tx, wanted);
    let blocking: HashSet<TxId> = found.iter().filter_map(|one| Some(one.wait.as_ref()?.rival)).collect();
    let is_blocking = |one: &Operation| {
        one.transaction.as_ref().and_then(|transaction| transaction.id).is_some_and(|id| blocking.contains(&id))
    };
    found.sort_by_key(|one| std::cmp::Reverse((one.wait.is_some() || is_blocking(one), one.lasts)));
    let operations: Vec<Value> = found.iter().take(MOST_SHOWN).map(|one| operation(context, one)).collect();
    let ended: Vec<Value> = context.tx.transactions.last_ended().iter().map(rolled_back).collect();
    let metrics = &context.tx.metrics;
    json!({
        "gateway": context.address(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": millis(context.started.elapsed()),
        "user": user.map(|user| user.name.to_string()),
        "may_act": user.is_none_or(User::is_root),
        "connections": metrics.connections.get(),
        "open": metrics.open.get(),
        "waiting": found.iter().filter(|one| one.wait.is_some()).count(),
        "running": found.iter().filter(|one| matches!(one.kind, Kind::Command(_))).count(),
        "operations": operations,
        "more_operations": found.len().saturating_sub(MOST_SHOWN),
        "ended": ended,
        "clients": clients,
        "sorts": CommandKind::ALL.map(CommandKind::name),
        "seconds": metrics.seconds(since).iter().map(second).collect::<Vec<_>>(),
    })
}

fn operation(context: &Context, one: &Operation) -> Value {
    let opid = match one.kind {
        // Numbers of JavaScript are too short for some.
        Kind::Command(opid) => Some(opid.to_string()),
        Kind::Idle | Kind::Connection => None,
    };
    json!({
        "opid": opid,
        "idle": one.kind == Kind::Idle,
        "session": one.lsid.as_ref().map(session_key),
        "number": one.transaction.as_ref().map(|transaction| transaction.number.to_string()),
        "transaction": one.transaction.as_ref().and_then(|transaction| transaction.id).map(|id| id.to_string()),
        "open_ms": one.transaction.as_ref().map(|transaction| millis(transaction.open)),
        "ms": millis(one.lasts),
        "command": one.command(),
        "namespace": one.namespace(),
        "shape": one.statement.shape(),
        "who": who(&one.who),
        "waits": one.wait.as_ref().map(|wait| waits(context, wait)),
    })
}

fn waits(context: &Context, wait: &Wait) -> Value {
    let rival = context.tx.transactions.find(wait.rival).map(|open| open.now());
    json!({
        "transaction": wait.rival.to_string(),
        "namespace": wait.namespace.to_string(),
        "ms": millis(wait.since.elapsed()),
        "rival": rival.as_ref().map(snapshot),
    })
}

fn rolled_back(ended: &EndedTransaction) -> Value {
    json!({
        "ago_ms": millis(ended.at.elapsed()),
        "reason": ended.reason,
        "code": ended.code,
        "transaction": ended.shown.id.map(|id| id.to_string()),
        "was": snapshot(&ended.shown),
        "rival": ended.rival.as_ref().map(|rival| rival.id.to_string()),
        "rival_was": ended.rival.as_ref().and_then(|rival| rival.shown.as_ref()).map(snapshot),
    })
}

fn snapshot(shown: &Snapshot) -> Value {
    json!({"who": who(&shown.who), "namespace": shown.statement.namespace(), "shape": shown.statement.shape()})
}

fn who(who: &ClientIdentity) -> Value {
    json!({
        "connection": who.connection.to_string(),
        "user": who.user.as_ref().map(ToString::to_string),
        "application": who.application,
        "host": who.host,
        "driver": who.driver,
    })
}

fn second(second: &SecondFigures) -> Value {
    let sorts = second.sorts.map(|sort| json!([sort.count, sort.median, sort.p99]));
    json!({
        "at": second.at, "sorts": sorts, "errors": second.errors, "committed": second.committed,
        "conflicts": second.conflicts, "aborted": second.aborted, "open": second.open, "connections": second.connections,
    })
}

/// A session's name as the page gives it back.
pub(super) fn session_key(lsid: &Lsid) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{}.{}", hex(&lsid.id), hex(&lsid.user))
}

/// The session that has this name.
pub(super) fn session_of(key: &str) -> Option<Lsid> {
    let (id, user) = key.split_once('.')?;
    Some(Lsid { id: bytes(id)?.try_into().ok()?, user: bytes(user)? })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_found_again_by_their_names() {
        let lsid = Lsid { id: [7; 16], user: vec![1, 255] };
        assert_eq!(session_of(&session_key(&lsid)).unwrap(), lsid);
        for bad in ["", ".", "07", "x".repeat(32).as_str(), "ää.", &format!("{}.0", "0".repeat(32))] {
            assert!(session_of(bad).is_none(), "{bad}");
        }
    }
}
