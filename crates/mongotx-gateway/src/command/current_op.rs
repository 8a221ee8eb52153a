//! `currentOp`: the transactions that are open at this gateway. Of others than `root`, their own.
//!
//! What the server itself is doing is not shown: those are the gateway's own commands, on documents as they are stored.

use std::time::Instant;

use bson::{Binary, Bson, DateTime, Document, doc, spec::BinarySubtype};

use super::parts::{body::Body, call::Call};
use crate::{
    access::User,
    failure::Answer,
    session::{Lsid, slot::Slot},
};

pub(super) async fn run(call: &mut Call<'_>) -> Answer<Body> {
    let mut fields = call.fields("currentOp");
    let own_only = fields.flag("$ownOps")?.unwrap_or(false);
    fields.ignore(&["$all", "$truncateOps"]);
    let filters: Vec<String> = fields.names().map(str::to_owned).collect();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    fields.refuse(&filters, "the gateway does not filter; ask for all of them")?;
    let sees_all = call.user.is_none_or(User::is_root) && !own_only;
    let sessions = &call.context.tx.sessions;
    let shown = sessions.names(|slot| sees_all || slot.lsid.user == call.user_digest());
    let described = shown.iter().filter_map(|lsid| describe(&*sessions.find(lsid)?));
    let shown: Vec<Bson> = described.map(Bson::from).collect();
    Body::of(&doc! {"inprog": shown})
}

/// What goes on in a session: a command, a transaction that waits for the next one, or nothing.
fn describe(slot: &Slot) -> Option<Document> {
    let lsid = name(&slot.lsid);
    let Some(work) = slot.try_check_out() else {
        return Some(doc! {"type": "op", "active": true, "desc": "a command runs in this session", "lsid": lsid});
    };
    let open = work.open.as_ref()?;
    let age = Instant::now().saturating_duration_since(open.since);
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let start = DateTime::from_millis(DateTime::now().timestamp_millis().saturating_sub(age_ms));
    let mut transaction = doc! {
        "parameters": {"txnNumber": work.machine.newest(), "autocommit": false},
        "startWallClockTime": start.try_to_rfc3339_string().unwrap_or_default(),
        "timeOpenMicros": age_ms.saturating_mul(1_000),
    };
    if let Some(id) = work.id {
        // As `mongotx show` takes it.
        transaction.insert("mongotxId", id.to_string());
    }
    Some(doc! {
        "type": "idleSession", "active": false, "desc": "inactive transaction", "lsid": lsid, "transaction": transaction,
    })
}

/// A session's name, as the server shows it.
pub(super) fn name(lsid: &Lsid) -> Document {
    let binary = |subtype, bytes: &[u8]| Binary { subtype, bytes: bytes.to_vec() };
    let mut name = doc! {"id": binary(BinarySubtype::Uuid, &lsid.id)};
    if !lsid.user.is_empty() {
        name.insert("uid", binary(BinarySubtype::Generic, &lsid.user));
    }
    name
}
