//! The clients that have records in the store, those of other gateways among them, as JSON for the
//! page: which are alive, and what the dead ones have left. The store gets one command every other
//! second, however many pages are open.

use std::time::{Duration, Instant};

use mongotx::ClientInfo;
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::timeout};

use super::activity_json::millis;
use crate::context::Context;

/// The longest time for which an answer about the store is shown again.
const FRESH: Duration = Duration::from_secs(2);
/// Time limit of that command.
const LIMIT: Duration = Duration::from_secs(2);
/// The most clients that are shown, those first that were silent for the longest time.
const MOST: usize = 100;
/// The most collections of one client that are named.
const MOST_NAMES: usize = 20;

/// The last answer about the store.
#[derive(Default)]
pub(super) struct Store {
    last: Mutex<Option<(Instant, Value)>>,
}

impl Store {
    /// The clients, as they were a moment ago.
    pub(super) async fn clients(&self, context: &Context) -> Value {
        let mut last = self.last.lock().await;
        if let Some((at, clients)) = &*last
            && at.elapsed() < FRESH
        {
            return clients.clone();
        }
        let clients = match timeout(LIMIT, context.client.open_clients(MOST + 1)).await {
            Ok(Ok(found)) => {
                let list: Vec<Value> = found.iter().take(MOST).map(client).collect();
                json!({"list": list, "more": found.len() > MOST})
            }
            Ok(Err(error)) => json!({"list": [], "error": error.to_string()}),
            Err(_) => json!({"list": [], "error": format!("the server does not answer within {LIMIT:?}")}),
        };
        *last = Some((Instant::now(), clients.clone()));
        clients
    }
}

fn client(info: &ClientInfo) -> Value {
    let about = info.process_info.clone().unwrap_or_default();
    let names: Vec<String> = info.namespaces.iter().take(MOST_NAMES).map(ToString::to_string).collect();
    json!({
        "id": info.id.to_string(),
        "dead": info.expired || info.fenced,
        "state": if info.fenced { "fenced" } else if info.expired { "expired" } else { "live" },
        "application": about.application,
        "host": about.host,
        "process": about.process,
        "silent_ms": millis(info.silent),
        "lease_ms": millis(info.lease),
        "unfinished": info.committed.len(),
        "namespaces": names,
        "more_namespaces": info.namespaces.len().saturating_sub(MOST_NAMES),
    })
}
