//! The commands that read or write one key, or read a range of keys.

use clap::Args;
use dtranx::core::{Key, KeyRange};
use dtranx::remark;

use crate::connect::{Connect, patiently};
use crate::failure::Failure;
use crate::say::{print_bytes, say};

#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    connect: Connect,
    /// Key to read
    key: String,
    /// Prints the bytes of the value as they are, and no line end behind them
    #[arg(long)]
    raw: bool,
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
        Some(value) if options.raw => print_bytes(&value),
        Some(value) => say!("{}", shown(&value)),
        None => return Err(Failure::No(format!("there is no key {:?}", options.key))),
    }
    Ok(())
}

pub(crate) fn put(options: &Put) -> Result<(), Failure> {
    Ok(options.connect.client()?.put(options.key.clone(), options.value.clone())?)
}

pub(crate) fn delete(options: &Delete) -> Result<(), Failure> {
    Ok(options.connect.client()?.delete(options.key.clone())?)
}

pub(crate) fn scan(options: &Scan) -> Result<(), Failure> {
    if options.limit == 0 {
        return Err(Failure::Failed("--limit: at least 1".to_owned()));
    }
    let range = range(options.prefix.as_deref(), &options.from, options.until.as_deref())?;
    let client = options.connect.patient_client()?;
    let found = patiently(|| client.scan(&range, options.limit))?;
    print_items(&found.items);
    if !found.complete {
        remark::say(format_args!("the limit of {} was reached", options.limit));
    }
    Ok(())
}

/// Prints keys and values, a line each.
pub(crate) fn print_items(items: &[(bytes::Bytes, bytes::Bytes)]) {
    for (key, value) in items {
        say!("{}\t{}", shown(key), shown(value));
    }
}

/// Text as it is, and the bytes of everything else escaped, and `\`: no two values are shown alike.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => shown.push_str(r"\\"),
                letter if letter.is_control() => escape(letter.encode_utf8(&mut [0; 4]).as_bytes(), &mut shown),
                letter => shown.push(letter),
            }
        }
        escape(chunk.invalid(), &mut shown);
    }
    shown
}

fn escape(bytes: &[u8], shown: &mut String) {
    shown.extend(bytes.escape_ascii().map(char::from));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_values_are_shown_alike_and_text_is_shown_as_it_is() {
        for (bytes, expected) in [
            (&b"plain 'text'"[..], "plain 'text'"),
            ("grün".as_bytes(), "grün"),
            (b"x\ty", r"x\ty"),
            (br"x\ty", r"x\\ty"),
            (b"\xff\n", r"\xff\n"),
            (br"\xff\n", r"\\xff\\n"),
            (b"gr\xc3\xbcn\xff", "gr\u{fc}n\\xff"),
            ("\u{85}".as_bytes(), r"\xc2\x85"),
        ] {
            assert_eq!(shown(bytes), expected);
        }
    }
}
