//! `refreshSessions`, `endSessions`, `killSessions`, `killAllSessions`, `killAllSessionsByPattern`.
//!
//! To kill a session is to roll back what is open in it, to close its cursors, and to interrupt
//! what runs in it. A session that is ended is killed and forgotten.

use std::time::Instant;

use bson::{Bson, Document};

use super::parts::{body::Body, call::Call};
use crate::{
    access::{User, UserName},
    failure::{Answer, Failure, codes},
    fields::{Fields, type_name},
    metrics::AbortReason,
    session::{Lsid, info::parse_lsid},
};

/// Runs `refreshSessions`: sessions live on.
pub(super) async fn refresh(call: &mut Call<'_>) -> Answer<Body> {
    for lsid in owned(named(call.name, std::mem::take(&mut call.body))?, call.user)? {
        call.context.tx.sessions.refresh(&lsid, Instant::now());
        call.context.tx.cursors.refresh(&lsid, Instant::now());
    }
    Ok(Body::empty())
}

/// Runs `endSessions` and `killSessions`: sessions end.
pub(super) async fn kill(call: &mut Call<'_>) -> Answer<Body> {
    let named = owned(named(call.name, std::mem::take(&mut call.body))?, call.user)?;
    if named.is_empty() && call.name == "killSessions" {
        match call.user {
            Some(user) => call.context.tx.kill_sessions_of_user(&user.digest).await,
            None => call.context.tx.kill_all_sessions(AbortReason::SessionEnded).await,
        }
    }
    for lsid in named {
        call.context.tx.kill_session(&lsid).await;
        if call.name == "endSessions" {
            call.context.tx.sessions.remove(&lsid);
        }
    }
    Ok(Body::empty())
}

/// `killAllSessions`: those of some users, or (with none named) all.
pub(super) async fn kill_all(call: &mut Call<'_>) -> Answer<Body> {
    let users = array(call.name, std::mem::take(&mut call.body))?;
    let users = users.iter().map(parse_user).collect::<Answer<Vec<_>>>()?;
    if users.is_empty() || call.user.is_none() {
        call.context.tx.kill_all_sessions(AbortReason::SessionEnded).await;
    }
    for user in users {
        call.context.tx.kill_sessions_of_user(&user.digest()).await;
    }
    Ok(Body::empty())
}

/// `killAllSessionsByPattern`: `{lsid: …}` names one session, any other pattern means all.
pub(super) async fn kill_by_pattern(call: &mut Call<'_>) -> Answer<Body> {
    let (named, all) = patterns(call.name, std::mem::take(&mut call.body))?;
    let named = owned(named, call.user)?;
    if all || named.is_empty() {
        call.context.tx.kill_all_sessions(AbortReason::SessionEnded).await;
    }
    for lsid in named {
        call.context.tx.kill_session(&lsid).await;
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

/// A user given as `{user: NAME, db: DATABASE}`.
fn parse_user(user: &Bson) -> Answer<UserName> {
    let field = |name: &str| user.as_document().and_then(|user| user.get_str(name).ok()).map(str::to_owned);
    match (field("user"), field("db")) {
        (Some(name), Some(database)) => Ok(UserName { database, name }),
        _ => Err(Failure::new(codes::TYPE_MISMATCH, "killAllSessions: a user is {user: NAME, db: DATABASE}")),
    }
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

/// The sessions that the user may name: only `root` may name another user's.
fn owned(lsids: Vec<Lsid>, user: Option<&User>) -> Answer<Vec<Lsid>> {
    let own = |lsid: Lsid| {
        if user.is_some_and(User::is_root) && !lsid.user.is_empty() { Ok(lsid) } else { lsid.of_user(user) }
    };
    lsids.into_iter().map(own).collect()
}
