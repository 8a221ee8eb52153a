//! The commands that read or write one key, or read a range of keys.

use clap::Args;
use dtranx::core::{Key, KeyRange};

use crate::connect::Connect;
use crate::failure::Failure;
use crate::say::say;

#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    connect: Connect,
    /// Key to read
    key: String,
}

#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    connect: Connect,
    /// Key to write
    key: String,
    /// Value to write
    value: String,
}

#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    connect: Connect,
    /// Key to delete
    key: String,
}

#[derive(Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    connect: Connect,
    /// Beginning of the keys to list
    #[arg(long, conflicts_with_all = ["from", "until"])]
    prefix: Option<String>,
    /// First key to list
    #[arg(long, default_value = "")]
    from: String,
    /// Key before which the list ends
    #[arg(long)]
    until: Option<String>,
    /// Greatest number of items to list
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

pub(crate) fn get(options: &Get) -> Result<(), Failure> {
    match options.connect.client()?.get(options.key.clone())? {
        Some(value) => {
            say!("{}", shown(&value));
            Ok(())
        }
        None => Err(Failure::No(format!("there is no key {:?}", options.key))),
    }
}

pub(crate) fn put(options: &Put) -> Result<(), Failure> {
    Ok(options.connect.client()?.put(options.key.clone(), options.value.clone())?)
}

pub(crate) fn delete(options: &Delete) -> Result<(), Failure> {
    Ok(options.connect.client()?.delete(options.key.clone())?)
}

pub(crate) fn scan(options: &Scan) -> Result<(), Failure> {
    let range = range(options.prefix.as_deref(), &options.from, options.until.as_deref())?;
    let found = options.connect.client()?.scan(&range, options.limit)?;
    print_items(&found.items);
    if !found.complete {
        eprintln!("dtranx: the limit of {} was reached", options.limit);
    }
    Ok(())
}

/// Prints keys and values, a line each.
pub(crate) fn print_items(items: &[(bytes::Bytes, bytes::Bytes)]) {
    for (key, value) in items {
        say!("{}\t{}", shown(key), shown(value));
    }
}

/// Text as it is, other bytes escaped.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// Range that the options of a command name: all keys with a prefix, or those from one key on.
pub(crate) fn range(prefix: Option<&str>, from: &str, until: Option<&str>) -> Result<KeyRange, Failure> {
    Ok(match (prefix, until) {
        (Some(prefix), _) => KeyRange::prefix(key(prefix)?),
        (None, Some(until)) => KeyRange::until(key(from)?, key(until)?),
        (None, None) => KeyRange { start: key(from)?, end: None },
    })
}

pub(crate) fn key(text: &str) -> Result<Key, Failure> {
    Key::new(text.to_owned()).map_err(|error| Failure::Failed(error.to_string()))
}
