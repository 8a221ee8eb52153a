//! `--config FILE`: the keys of a file become flags, unless the command line has these flags
//! itself.
//!
//! There is one list of names, the flags of `mongotx serve` themselves: a key of the file is a
//! flag's long name, and its value is read by the same code. So nothing can be said in one place
//! and not in the other.

use std::{any::TypeId, ffi::OsString, fs::File, io::Read, path::Path};

use clap::{Arg, ArgAction, Command, error::ErrorKind, parser::ValueSource};
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;

/// The flag that names the file.
const CONFIG: &str = "config";
/// The subcommand whose options the file has.
const SERVE: &str = "serve";
/// The largest file that is read, in bytes.
const LARGEST_BYTES: u64 = 1024 * 1024;

/// The command line with what its file says. One that has no file, or that cannot be understood,
/// stays as it is.
///
/// # Errors
/// Names the file, the line and the key.
pub(crate) fn with_file(cli: &Command, mut args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    // Errors of the command line are reported when it is parsed for good; an option that is missing
    // here may be in the file.
    let Ok(matches) = cli.clone().ignore_errors(true).try_get_matches_from(&args) else { return Ok(args) };
    let (Some((SERVE, matches)), Some(serve)) = (matches.subcommand(), cli.find_subcommand(SERVE)) else {
        return Ok(args);
    };
    let Some(path) = matches.get_one::<std::path::PathBuf>(CONFIG) else { return Ok(args) };
    for said in read(path, serve)? {
        if matches.value_source(&said.id) != Some(ValueSource::CommandLine) {
            args.push(said.flag.into());
        }
    }
    Ok(args)
}

/// One key, as the flag that it stands for.
struct Said {
    id: String,
    flag: String,
}

fn read(path: &Path, serve: &Command) -> Result<Vec<Said>, Failure> {
    let named = |reason: String| Failure::new(format!("config: {}: {reason}", path.display()));
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| named(error.to_string()))?;
    if text.len() as u64 > LARGEST_BYTES {
        return Err(named(format!("it has more than {LARGEST_BYTES} bytes")));
    }
    parse(&text, serve).map_err(|(line, reason)| named(format!("line {line}: {reason}")))
}

/// The options in a text; or the line of an error, and the error.
fn parse(text: &str, serve: &Command) -> Result<Vec<Said>, (usize, String)> {
    let line_of = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().map_or(1, |span| line_of(span.start)), error.message().to_owned()))?;
    let mut said = Vec::new();
    for (key, value) in table.get_ref() {
        let name = key.get_ref().as_ref();
        let at = |reason: String| (line_of(key.span().start), format!("{name}: {reason}"));
        let arg = flag(serve, name).ok_or_else(|| at("there is no such key".to_owned()))?;
        if let Some(flag) = spell(arg, name, value.get_ref()).map_err(at)? {
            check(serve, name, &flag).map_err(at)?;
            said.push(Said { id: arg.get_id().to_string(), flag });
        }
    }
    Ok(said)
}

/// The flag of this name, but for those that make no sense in a file.
fn flag<'a>(serve: &'a Command, name: &str) -> Option<&'a Arg> {
    let mut flags = serve.get_arguments().filter(|arg| is_key(arg));
    flags.find(|arg| arg.get_long() == Some(name))
}

fn is_key(arg: &Arg) -> bool {
    arg.get_long() != Some(CONFIG) && matches!(arg.get_action(), ArgAction::Set | ArgAction::SetTrue)
}

/// The flag with its value; `None`: it is switched off.
fn spell(arg: &Arg, name: &str, value: &DeValue<'_>) -> Result<Option<String>, String> {
    let wanted = wanted(arg);
    let value = match (wanted, value) {
        (Wanted::Switch, DeValue::Boolean(true)) => return Ok(Some(format!("--{name}"))),
        (Wanted::Switch, DeValue::Boolean(false)) => return Ok(None),
        (Wanted::Number, DeValue::Integer(number)) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            number.map_err(|error| error.to_string())?.to_string()
        }
        (Wanted::Text, DeValue::String(text)) => text.to_string(),
        _ => return Err(format!("it has to be {}", wanted.in_words())),
    };
    Ok(Some(format!("--{name}={value}")))
}

#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Switch,
    Number,
    Text,
}

impl Wanted {
    fn in_words(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Number => "a whole number",
            Self::Text => "a text in quotes",
        }
    }
}

fn wanted(arg: &Arg) -> Wanted {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return Wanted::Switch;
    }
    let id = arg.get_value_parser().type_id();
    let numbers = [TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()];
    if numbers.iter().any(|number| id == *number) { Wanted::Number } else { Wanted::Text }
}

/// Checks the value by the flag's own rules. Rules about other flags are checked with all the
/// others.
fn check(serve: &Command, name: &str, flag: &str) -> Result<(), String> {
    let parsed = serve.clone().no_binary_name(true).try_get_matches_from([flag]);
    match parsed {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => Ok(()),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").replace(&format!("for '--{name} "), "for '"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// `mongotx serve` as it is.
    fn serve() -> Command {
        let mut cli = Cli::command();
        cli.build();
        cli.find_subcommand(SERVE).unwrap().clone()
    }

    /// A value that the flag takes and that is not its default.
    fn sample(arg: &Arg) -> String {
        let possible = arg.get_possible_values();
        match (wanted(arg), possible.last()) {
            (Wanted::Switch, _) => "true".to_owned(),
            // Its value is at least a thousand events.
            (Wanted::Number, _) if arg.get_id() == "max_change_events" => "7777".to_owned(),
            (Wanted::Number, _) => "77".to_owned(),
            (Wanted::Text, Some(value)) => format!("{:?}", value.get_name()),
            (Wanted::Text, None) if arg.get_value_parser().type_id() == TypeId::of::<std::net::SocketAddr>() => {
                "\"127.0.0.1:77\"".to_owned()
            }
            (Wanted::Text, None) => "\"sample\"".to_owned(),
        }
    }

    fn keys(serve: &Command) -> Vec<Arg> {
        serve.get_arguments().filter(|arg| is_key(arg)).cloned().collect()
    }

    /// The command line with a file, taken apart.
    fn with(text: &str, more: &[&str]) -> clap::ArgMatches {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, text).unwrap();
        let args = ["mongotx", SERVE, "--config", path.to_str().unwrap()]
            .into_iter()
            .chain(more.iter().copied())
            .map(OsString::from);
        let args = with_file(&Cli::command(), args.collect()).unwrap_or_else(|failure| panic!("{failure}"));
        let matches = Cli::command().try_get_matches_from(args).unwrap();
        matches.subcommand_matches(SERVE).unwrap().clone()
    }

    #[test]
    fn every_flag_can_be_in_the_file_and_means_the_same() {
        let serve = serve();
        let keys = keys(&serve);
        assert!(keys.len() > 10);
        let text: String = keys.iter().map(|arg| format!("{} = {}\n", arg.get_long().unwrap(), sample(arg))).collect();
        let matches = with(&text, &[]);
        for arg in &keys {
            let id = arg.get_id().as_str();
            let found = matches.get_raw(id).unwrap().next().unwrap().to_str().unwrap().to_owned();
            let wanted = sample(arg);
            assert_eq!(found, wanted.trim_matches('"'), "{id}");
            assert_eq!(matches.value_source(id), Some(ValueSource::CommandLine), "{id}");
        }
    }

    #[test]
    fn flags_win_over_the_file() {
        let text = "max-connections = 5\nidle-timeout = 6\nend-with-stdin = false\n";
        let matches = with(text, &["--max-connections", "7"]);
        assert_eq!(matches.get_one::<u32>("max_connections"), Some(&7));
        assert_eq!(matches.get_one::<u32>("idle_timeout"), Some(&6));
        assert_eq!(matches.get_one::<bool>("end_with_stdin"), Some(&false));
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_key_and_its_line() {
        let serve = serve();
        for (text, line, words) in [
            ("listen = \"127.0.0.1:1\"\nlistten = 5\n", 2, "listten: there is no such key"),
            ("\n\nmax-connections = \"5\"", 3, "max-connections: it has to be a whole number"),
            ("max-connections = 0", 1, "max-connections: invalid value '0'"),
            ("max-connections = 1.5", 1, "whole number"),
            ("max-connections = 99999999999999999999", 1, "max-connections"),
            ("end-with-stdin = 1", 1, "end-with-stdin: it has to be true or false"),
            ("uri = true", 1, "uri: it has to be a text"),
            ("uri = [\"x\"]", 1, "uri: it has to be a text"),
            ("[uri]\nx = 1", 1, "uri: it has to be a text"),
            ("listen = \"somewhere\"", 1, "listen: invalid value 'somewhere'"),
            ("tx-database = \"a.b\"", 1, "tx-database"),
            ("config = \"other\"", 1, "config: there is no such key"),
            ("help = true", 1, "help: there is no such key"),
            ("uri = \"a\"\nuri = \"b\"", 2, "duplicate"),
            ("uri = ", 1, ""),
            ("max_connections = 5", 1, "max_connections: there is no such key"),
        ] {
            let (found, reason) = parse(text, &serve).err().unwrap();
            assert!(found == line && reason.contains(words), "{text}: line {found}: {reason}");
        }
    }

    #[test]
    fn files_that_are_not_there_are_named() {
        let args = ["mongotx", SERVE, "--config", "/nowhere/x.toml"].map(OsString::from).to_vec();
        let failure = with_file(&Cli::command(), args).err().unwrap().to_string();
        assert!(failure.contains("config") && failure.contains("/nowhere/x.toml"), "{failure}");
    }
}
