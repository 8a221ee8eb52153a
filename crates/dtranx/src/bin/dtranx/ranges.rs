//! The commands that show where ranges of keys are, and move them.

use clap::Args;
use dtranx::core::range::KeyBound;
use dtranx::core::{KeyRange, ServerId};
use dtranx::remark;

use crate::connect::Connect;
use crate::data::{range, shown};
use crate::failure::Failure;
use crate::say::say;

#[derive(Args)]
pub(crate) struct Map {
    #[command(flatten)]
    connect: Connect,
}

#[derive(Args)]
pub(crate) struct Move {
    #[command(flatten)]
    connect: Connect,
    /// Beginning of the keys to move
    #[arg(long, conflicts_with_all = ["from", "until"])]
    prefix: Option<String>,
    /// First key to move
    #[arg(long, default_value = "")]
    from: String,
    /// Key before which the range ends; without it, all keys from the first one on move
    #[arg(long)]
    until: Option<String>,
    /// Server that is to hold the keys
    #[arg(long, value_name = "ID")]
    to: u16,
}

pub(crate) fn show(options: &Map) -> Result<(), Failure> {
    let client = options.connect.client()?;
    let map = client.map()?;
    for (range, server) in map.pieces(&KeyRange::all()) {
        say!("{}\tserver {server}\t{}", named(&range), counted(map.moves_of(&range), "move"));
    }
    Ok(())
}

pub(crate) fn move_range(options: &Move) -> Result<(), Failure> {
    let range = range(options.prefix.as_deref(), &options.from, options.until.as_deref())?;
    if range.is_empty() {
        return Err(Failure::Failed("the range is empty: --until is not behind --from".to_owned()));
    }
    let to = ServerId(options.to);
    let moved = options.connect.client()?.move_range(&range, to, |done| {
        let (keys, transactions) = (counted(done.items, "key"), counted(done.transactions, "transaction"));
        remark::say(format_args!("moved {keys} in {transactions}"));
    })?;
    say!("server {to} holds {}: moved {}", named(&range), counted(moved.items, "key"));
    Ok(())
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A range as text: its first key, and the key before which it ends.
fn named(range: &KeyRange) -> String {
    let from = shown(range.start.as_bytes());
    match &range.end {
        None => format!("\"{from}\" and all behind"),
        Some(KeyBound::Before(end)) => format!("\"{from}\" up to \"{}\"", shown(end.as_bytes())),
        Some(KeyBound::Through(last)) => format!("\"{from}\" up to and with \"{}\"", shown(last.as_bytes())),
    }
}
