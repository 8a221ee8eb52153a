//! The command that shows transactions in doubt whose coordinator is lost for good, and records an
//! operator's decisions about them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use dtranx::core::range::KeyBound;
use dtranx::core::{Decision, Key, KeyRange, ServerId, TranxId, Undecided, Write};
use dtranx::server::{GivenUp, InDoubt, ResolveError, Resolver};

use crate::failure::Failure;
use crate::say::say;
use crate::which::WhichServer;

/// Lists what a server is in doubt about, and records an operator's decisions
///
/// A transaction is in doubt on a server that has voted yes and does not know the outcome. As long
/// as its coordinator may come back, or another participant that knows the outcome, nothing is to
/// be decided here: they tell it. Where the coordinator's folder is gone for good, the outcome is
/// the operator's to decide, once for all servers: the others learn it from this one. What no
/// server knows is decided on the lowest-numbered participant that is not lost.
///
/// This server must not run, nor those whose folders are given; opening a folder writes to it.
/// Without a decision nothing is recorded. Status 1: a decision is refused, and nothing is
/// recorded. The same command may be run again: what is recorded already counts as done.
#[derive(Args)]
pub(crate) struct ResolveOptions {
    #[command(flatten)]
    which: WhichServer,
    /// Folder of another server, whose log or items may say what became of the transactions; may be
    /// given several times. A copy has to be made after the server's last stop, never from a backup
    /// or of a server that runs; and what is written into a copy protects the server itself from
    /// nothing
    #[arg(long, value_name = "ID=FOLDER", value_parser = other)]
    other: Vec<(ServerId, PathBuf)>,
    /// Server whose folder is gone for good; may be given several times. Its process must be
    /// stopped, and it must never be started again in this cluster: its part of what is decided may
    /// be the other half. Once something is decided that it may have known, this server refuses
    /// it if it comes back with what it had, and so do those whose folders are given with --other;
    /// all others do not
    #[arg(long, value_name = "ID", value_parser = server)]
    lost: Vec<ServerId>,
    /// Commit this transaction: `2.17` is the 17th of server 2; may be given several times
    #[arg(long, value_name = "TRANSACTION", value_parser = transaction)]
    commit: Vec<TranxId>,
    /// Abort this transaction; may be given several times
    #[arg(long, value_name = "TRANSACTION", value_parser = transaction)]
    abort: Vec<TranxId>,
    /// Abort everything in doubt that this server coordinates; may be given several times
    #[arg(long, value_name = "ID", value_parser = server)]
    abort_all_of: Vec<ServerId>,
}

pub(crate) fn resolve(options: &ResolveOptions) -> Result<(), Failure> {
    let config = options.which.config()?;
    let lost: BTreeSet<ServerId> = options.lost.iter().copied().collect();
    let resolver =
        Resolver::open(&config, &options.other, &lost).map_err(|error| Failure::Failed(error.to_string()))?;
    let in_doubt = resolver.in_doubt();
    let decisions = decisions(options, &in_doubt)?;
    if decisions.is_empty() && options.abort_all_of.is_empty() {
        let (server, cluster) = (config.server, &config.cluster.name);
        say!("server {server} of {cluster:?} is in doubt about {} transactions", in_doubt.len());
        in_doubt.iter().for_each(show);
        return Ok(());
    }
    let given_up = resolver.resolve(&decisions).map_err(failure)?;
    for (tranx, decision) in &decisions {
        say!("{tranx} is {}", decision.done());
    }
    given_up.iter().for_each(show_given_up);
    if !decisions.is_empty() {
        say!("server {} acts on it when it starts, and tells it to servers that are in doubt and ask", config.server);
    }
    Ok(())
}

fn failure(error: ResolveError) -> Failure {
    let is_unasked = |refused: &Undecided| matches!(refused, Undecided::Unasked { .. });
    match &error {
        ResolveError::Refused(refused) if refused.iter().any(is_unasked) => {
            let advice = "`--other ID=FOLDER` asks a server's log, `--lost ID` says that it is gone for good";
            Failure::No(format!("{error} ({advice})"))
        }
        ResolveError::Refused(_) => Failure::No(error.to_string()),
        _ => Failure::Failed(error.to_string()),
    }
}

/// The decisions that the options give; a transaction has one of them.
fn decisions(options: &ResolveOptions, in_doubt: &[InDoubt]) -> Result<BTreeMap<TranxId, Decision>, Failure> {
    let mut decisions = BTreeMap::new();
    let named = options.commit.iter().map(|tranx| (*tranx, Decision::Commit));
    let named = named.chain(options.abort.iter().map(|tranx| (*tranx, Decision::Abort)));
    for (tranx, decision) in named {
        if decisions.insert(tranx, decision).is_some_and(|other| other != decision) {
            return Err(Failure::Failed(format!("{tranx} is to be both committed and aborted")));
        }
    }
    for server in &options.abort_all_of {
        let of_server = |found: &&InDoubt| found.doubt.tranx.server == *server;
        if !in_doubt.iter().any(|found| of_server(&found)) {
            say!("nothing of server {server} is in doubt");
        }
        for found in in_doubt.iter().filter(of_server) {
            if decisions.insert(found.doubt.tranx, Decision::Abort) == Some(Decision::Commit) {
                return Err(Failure::Failed(format!("{} is to be both committed and aborted", found.doubt.tranx)));
            }
        }
    }
    Ok(decisions)
}

fn show(found: &InDoubt) {
    let doubt = &found.doubt;
    let servers: Vec<String> = doubt.participants.iter().map(ServerId::to_string).collect();
    say!("{}: of server {}, on the servers {}", doubt.tranx, doubt.tranx.server, servers.join(", "));
    let (puts, deletes): (Vec<&Write>, Vec<&Write>) = doubt.writes.iter().partition(|write| write.value.is_some());
    show_list("puts", puts.iter().map(|write| shown(&write.key)));
    show_list("deletes", deletes.iter().map(|write| shown(&write.key)));
    show_list("has read", doubt.shared.iter().map(shown));
    show_list("has scanned", doubt.ranges.iter().map(scanned));
    for (server, known) in &found.known {
        say!("  server {server} {known}");
    }
    for server in &found.lost {
        say!("  server {server} is lost");
    }
    say!("  {}", allowed(found.commit_refused.as_ref(), found.abort_refused.as_ref()));
}

/// The decisions that are allowed, by the reasons why a transaction cannot be committed or aborted.
fn allowed(commit_refused: Option<&Undecided>, abort_refused: Option<&Undecided>) -> String {
    match (commit_refused, abort_refused) {
        (None, None) => "it may be committed or aborted: no log knows the outcome".to_owned(),
        (None, Some(_)) => "it may be committed".to_owned(),
        (Some(_), None) => "it may be aborted".to_owned(),
        (Some(both), Some(also)) if both == also => format!("nothing may be decided: {both}"),
        (Some(commit), Some(abort)) => format!("nothing may be decided: {commit}; {abort}"),
    }
}

fn show_given_up(given_up: &GivenUp) {
    let server = given_up.server;
    match given_up.store {
        Some(store) => {
            let by: Vec<String> = given_up.by.iter().map(ServerId::to_string).collect();
            say!("the store {store} of server {server} is given up: it is refused by server {}", by.join(", "));
        }
        None => say!("server {server} is lost: no server here knows its store, so none refuses it"),
    }
}

fn show_list(what: &str, things: impl Iterator<Item = String>) {
    let things: Vec<String> = things.collect();
    if !things.is_empty() {
        say!("  {what} {}", things.join(", "));
    }
}

fn shown(key: &Key) -> String {
    format!("{key:?}")
}

fn scanned(range: &KeyRange) -> String {
    let start = &range.start;
    match &range.end {
        None => format!("{start:?} and all behind it"),
        Some(KeyBound::Before(end)) => format!("{start:?} until {end:?}"),
        Some(KeyBound::Through(last)) => format!("{start:?} through {last:?}"),
    }
}

fn server(text: &str) -> Result<ServerId, String> {
    text.parse().map(ServerId).map_err(|_| format!("{text:?} is no number of a server"))
}

fn other(text: &str) -> Result<(ServerId, PathBuf), String> {
    let (id, folder) = text.split_once('=').ok_or("it has no =, as in 3=FOLDER")?;
    if folder.is_empty() {
        return Err("the folder behind the = is missing".to_owned());
    }
    Ok((server(id)?, folder.into()))
}

fn transaction(text: &str) -> Result<TranxId, String> {
    let wrong = || format!("{text:?} is no transaction: a server's number, a point, and its number for it, as in 2.17");
    let (coordinator, number) = text.split_once('.').ok_or_else(wrong)?;
    let (server, number) = (server(coordinator)?, number.parse().map_err(|_| wrong())?);
    Ok(TranxId { server, number })
}

#[cfg(test)]
mod tests {
    use dtranx::core::Known;

    use super::*;

    #[test]
    fn reasons_against_both_decisions_are_shown_once_each() {
        let tranx = TranxId { server: ServerId(2), number: 1 };
        let older = |decision| Undecided::Known { tranx, decision, server: ServerId(2), known: Known::Older };
        let said = allowed(Some(&older(Decision::Commit)), Some(&older(Decision::Abort)));
        assert!(said.contains("2.1: it cannot be committed: server 2 has a log that ends"), "{said}");
        assert!(said.contains("; 2.1: it cannot be aborted: server 2 has a log that ends"), "{said}");
        let elsewhere = Undecided::Elsewhere { tranx, server: ServerId(1) };
        let said = allowed(Some(&elsewhere), Some(&elsewhere));
        assert_eq!(said, "nothing may be decided: 2.1: no log knows the outcome: decide this on server 1");
    }

    #[test]
    fn advice_to_ask_or_to_call_lost_is_given_only_where_somebody_was_not_asked() {
        let tranx = TranxId { server: ServerId(2), number: 1 };
        let said = |refused| match failure(ResolveError::Refused(vec![refused])) {
            Failure::No(said) => said,
            _ => panic!("a refusal is status 1"),
        };
        let advice = "`--lost ID` says that it is gone for good";
        assert!(said(Undecided::Unasked { tranx, servers: vec![ServerId(3)] }).contains(advice));
        assert!(!said(Undecided::Elsewhere { tranx, server: ServerId(1) }).contains(advice));
    }
}
