//! The text of a block: usage, and a table of arguments and options.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

use crate::limits;

/// Whole names of subcommands that share options.
pub(crate) type Group = Vec<String>;

/// Options that all of these subcommands have.
pub(crate) fn shared(commands: &[(&str, &Command)]) -> String {
    let Some(((_, first), others)) = commands.split_first() else { return String::new() };
    let is_shared = |arg: &&Arg| others.iter().all(|(_, other)| options(other).any(|own| is_same(own, arg)));
    table(first, options(first).filter(is_shared).collect())
}

/// Usage and options of a subcommand, without those that it shares with all others of a group.
pub(crate) fn own(named: &[(&str, &Command)], groups: &[Group], commands: &BTreeMap<String, Command>) -> String {
    let Some((name, command)) = named.first() else { return String::new() };
    let usage = Command::clone(command).bin_name(*name).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let mine = groups.iter().filter(|group| group.iter().any(|member| member == name));
    let others: Vec<&Command> = mine.flatten().filter_map(|member| commands.get(member)).collect();
    let is_shared =
        |arg: &Arg| !others.is_empty() && others.iter().all(|other| options(other).any(|own| is_same(own, arg)));
    let rest = options(command).filter(|arg| !is_shared(arg)).collect();
    format!("\n```text\n{usage}\n```\n{}", table(command, rest))
}

/// Arguments and options that the help shows, but for `--help` and `--version`.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let asks = |arg: &Arg| {
        matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version)
    };
    command.get_arguments().filter(move |arg| !arg.is_hide_set() && !asks(arg))
}

fn is_same(one: &Arg, other: &Arg) -> bool {
    one.get_id() == other.get_id() && meaning(one) == meaning(other) && default(one) == default(other)
}

fn table(command: &Command, args: Vec<&Arg>) -> String {
    if args.is_empty() {
        return "\n".to_owned();
    }
    let row = |arg: &Arg| {
        let cells = [name(arg), values(command, arg), default(arg), meaning(arg)];
        format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|").replace('\n', " ")).join(" | "))
    };
    let rows: String = args.into_iter().map(row).collect();
    format!("\n| option | value | default | meaning |\n| --- | --- | --- | --- |\n{rows}\n")
}

fn name(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => format!("`--{long}`"),
        None => format!("`{}`", value_name(arg)),
    }
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string)
}

/// The value that follows the option: nothing, one of some words, a number within limits, or what
/// its name in the usage says.
fn values(command: &Command, arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return "none".to_owned();
    }
    let words: Vec<String> = arg.get_possible_values().iter().map(|word| format!("`{}`", word.get_name())).collect();
    let one = match (words.is_empty(), limits::of(command, arg)) {
        (false, _) => words.join(", "),
        (true, Some(limits)) if names_a_unit(arg) => format!("`{}`: {limits}", value_name(arg)),
        (true, Some(limits)) => limits,
        (true, None) if arg.is_positional() => "argument".to_owned(),
        (true, None) => format!("`{}`", value_name(arg)),
    };
    let several = matches!(arg.get_action(), ArgAction::Append);
    match (several, arg.get_value_delimiter()) {
        (_, Some(',')) => format!("{one}; several with commas"),
        (true, _) => format!("{one}; several"),
        _ => one,
    }
}

/// Returns true if the name of the value says more than that of the option.
fn names_a_unit(arg: &Arg) -> bool {
    !["N", "NUMBER"].contains(&value_name(arg).as_str()) && value_name(arg) != arg.get_id().as_str().to_uppercase()
}

fn default(arg: &Arg) -> String {
    let values: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    match (values.is_empty(), arg.is_required_set(), arg.get_action()) {
        (_, true, _) => "required".to_owned(),
        (_, _, ArgAction::SetTrue) => "off".to_owned(),
        (true, ..) => written_default(arg).map(|(_, default)| default).unwrap_or_default(),
        _ => format!("`{}`", Some(values.join(",")).filter(|text| !text.is_empty()).unwrap_or("\"\"".to_owned())),
    }
}

fn meaning(arg: &Arg) -> String {
    let meaning = written_default(arg).map_or_else(|| help(arg), |(meaning, _)| meaning);
    let words = arg.get_possible_values();
    let explained = words.iter().filter_map(|word| Some(format!("`{}`: {}", word.get_name(), word.get_help()?)));
    std::iter::once(meaning).chain(explained).collect::<Vec<String>>().join(". ")
}

/// Meaning and default of an option whose help ends with its default, because clap does not know
/// it.
fn written_default(arg: &Arg) -> Option<(String, String)> {
    let help = help(arg);
    let (meaning, default) = help.strip_suffix(']')?.rsplit_once(" [default: ")?;
    Some((meaning.to_owned(), default.to_owned()))
}

fn help(arg: &Arg) -> String {
    let help = arg.get_help().or_else(|| arg.get_long_help()).map(ToString::to_string).unwrap_or_default();
    help.split("\n\n").collect::<Vec<&str>>().join(" ")
}
