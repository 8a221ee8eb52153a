//! The numbers that an option takes. clap does not tell the limits of a range, so that they are
//! looked for by trying.

use std::any::TypeId;

use clap::{Arg, Command, error::ErrorKind};

/// The numbers that the option takes, in words, with the limits of whole ones; `None` if it takes
/// something else.
pub(crate) fn of(command: &Command, arg: &Arg) -> Option<String> {
    let id = arg.get_value_parser().type_id();
    let most = match () {
        () if id == TypeId::of::<f64>() => return Some("number".to_owned()),
        () if id == TypeId::of::<u8>() => u64::from(u8::MAX),
        () if id == TypeId::of::<u16>() => u64::from(u16::MAX),
        () if id == TypeId::of::<u32>() => u64::from(u32::MAX),
        () if id == TypeId::of::<u64>() || id == TypeId::of::<usize>() => u64::MAX,
        () => return None,
    };
    let takes = |number: u64| takes(command, arg, number);
    // Some number that is taken: ranges here begin at 10,000 at most, or end there.
    let inside = [1, 10, 100, 1_000, 10_000].into_iter().find(|number| takes(*number))?;
    let least = if takes(0) { 0 } else { edge(inside, 0, takes) };
    let greatest = if takes(most) { None } else { Some(edge(inside, most, takes)) };
    Some(match (least, greatest) {
        (0, None) => "whole number".to_owned(),
        (least, None) => format!("whole number from {least} on"),
        (least, Some(greatest)) => format!("whole number, {least} to {greatest}"),
    })
}

/// The last number that is taken on the way from one that is to one that is not.
fn edge(mut inside: u64, mut outside: u64, takes: impl Fn(u64) -> bool) -> u64 {
    while inside.abs_diff(outside) > 1 {
        let between = inside.midpoint(outside);
        if takes(between) { inside = between } else { outside = between }
    }
    inside
}

/// Returns true if the option itself takes the number. What it needs besides is another matter.
fn takes(command: &Command, arg: &Arg, number: u64) -> bool {
    let words = match arg.get_long() {
        Some(long) => vec![format!("--{long}={number}")],
        None => vec![number.to_string()],
    };
    let tried = command.clone().no_binary_name(true).try_get_matches_from(words);
    !tried.is_err_and(|error| matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue))
}
