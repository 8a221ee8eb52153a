//! `refreshSessions`, `endSessions`, `killSessions`, `killAllSessions`, `killAllSessionsByPattern`.
//!
//! To kill a session is to roll back what is open in it, to close its cursors, and to interrupt what runs in it. A session
//! that is ended is killed and forgotten.

use std::{sync::Arc, time::Instant};

use bson::{Bson, Document};

use super::{
    body::Body,
    call::Call,
    fields::{Fields, type_name},
};
use crate::{
    context::Context,
    failure::{Answer, Failure, codes},
    session::{Lsid, info::parse_lsid, slot::Slot},
};

/// `refreshSessions`.
pub(super) fn refresh(call: &mut Call<'_>) -> Answer<Body> {
    for lsid in named(call.name, std::mem::take(&mut call.body))? {
        call.context.tx.sessions.get(&lsid, Instant::now())?;
    }
    Ok(Body::empty())
}

/// `endSessions` and `killSessions`.
pub(super) async fn kill(call: &mut Call<'_>) -> Answer<Body> {
    let named = named(call.name, std::mem::take(&mut call.body))?;
    if named.is_empty() && call.name == "killSessions" {
        kill_every(call.context).await;
    }
    for lsid in named {
        kill_one(call.context, &lsid).await;
        if call.name == "endSessions" {
            call.context.tx.sessions.remove(&lsid);
        }
    }
    Ok(Body::empty())
}

/// `killAllSessions`: those of some users, or (with none named) all.
pub(super) async fn kill_all(call: &mut Call<'_>) -> Answer<Body> {
    array(call.name, std::mem::take(&mut call.body))?;
    kill_every(call.context).await;
    Ok(Body::empty())
}

/// `killAllSessionsByPattern`: `{lsid: …}` names one session, any other pattern means all.
pub(super) async fn kill_by_pattern(call: &mut Call<'_>) -> Answer<Body> {
    let (named, all) = patterns(call.name, std::mem::take(&mut call.body))?;
    if all || named.is_empty() {
        kill_every(call.context).await;
    }
    for lsid in named {
        kill_one(call.context, &lsid).await;
    }
    Ok(Body::empty())
}

/// The sessions that patterns name, and whether there are others.
pub(super) fn patterns(name: &str, body: Document) -> Answer<(Vec<Lsid>, bool)> {
    let mut all = false;
    let mut named = Vec::new();
    for pattern in array(name, body)? {
        match pattern.as_document().and_then(|pattern| pattern.get("lsid")) {
            Some(lsid) => named.push(parse_lsid("KillAllSessionsByPattern.lsid", lsid)?),
            None => all = true,
        }
    }
    Ok((named, all))
}

fn array(name: &str, mut body: Document) -> Answer<Vec<Bson>> {
    match body.remove(name) {
        Some(Bson::Array(array)) => {
            Fields::new(name, body).finish()?;
            Ok(array)
        }
        other => {
            let found = type_name(&other.unwrap_or(Bson::Null));
            let message = format!("BSON field '{name}.{name}' is the wrong type '{found}', expected type 'array'");
            Err(Failure::new(codes::TYPE_MISMATCH, message))
        }
    }
}

/// The sessions that the command of this name names.
pub(super) fn named(name: &str, body: Document) -> Answer<Vec<Lsid>> {
    array(name, body)?.iter().enumerate().map(|(n, lsid)| parse_lsid(&format!("{name}.{name}.{n}"), lsid)).collect()
}

async fn kill_one(context: &Context, lsid: &Lsid) {
    context.tx.cursors.kill_of_session(lsid);
    if let Some(slot) = context.tx.sessions.find(lsid) {
        slot.kill().await;
    }
}

/// Kills every session.
pub(crate) async fn kill_every(context: &Context) {
    context.tx.cursors.kill_of_sessions();
    let slots: Vec<Arc<Slot>> = context.tx.sessions.all();
    for slot in slots {
        slot.kill().await;
    }
}
