//! Checks that pages describe every subcommand and every option of a program as clap knows them.
//! For tests only.
//!
//! A page has a block for each subcommand, between two comments:
//!
//! ```text
//! <!-- options: mongotx show -->
//! (written from clap's definitions: the usage, and a table of the options)
//! <!-- end -->
//! ```
//!
//! A comment that names several subcommands, separated by commas, is the place of the options that
//! all of them have; their own blocks then leave these out. What else a page says (what a command
//! prints, its exit statuses, an example) is written by hand around the blocks.
//!
//! `render` writes a block, `limits` finds the numbers that an option takes. With
//! `WRITE_PAGES=1` in the environment [`assert_described`] writes the blocks instead of comparing
//! them.

mod limits;
mod render;

use std::{collections::BTreeMap, path::Path};

use clap::Command;

use crate::render::Group;

/// Beginning of the comment before a block; the names of subcommands follow.
const BEGIN: &str = "<!-- options: ";
/// The comment after a block.
const END: &str = "<!-- end -->";

/// Checks that the pages have a block for every subcommand of the program that its help shows, and
/// that each block is what clap says now. `pages` are paths in the repository.
///
/// # Panics
/// Where a page cannot be read, a subcommand has no block, a block names no subcommand, or a block
/// differs.
pub fn assert_described(mut program: Command, pages: &[&str]) {
    program.build();
    let commands = leaves(&program);
    let texts: Vec<(&str, String)> = pages.iter().map(|page| (*page, read(page))).collect();
    let groups: Vec<Group> = texts.iter().flat_map(|(_, text)| markers(text)).filter_map(group).collect();
    for name in commands.keys() {
        let is_named = texts.iter().flat_map(|(_, text)| markers(text)).any(|marker| marker == name);
        assert!(is_named, "no page has a block for {name}: add `{BEGIN}{name} -->` and `{END}`");
    }
    let mut stale = Vec::new();
    for (page, text) in &texts {
        let written = rewrite(text, &commands, &groups).unwrap_or_else(|fault| panic!("{page}: {fault}"));
        if written == *text {
            continue;
        }
        if std::env::var_os("WRITE_PAGES").is_some() {
            let done = std::fs::write(path(page), written);
            assert!(done.is_ok(), "{page}: {done:?}");
        } else {
            let differing = text.lines().zip(written.lines()).find(|(now, wanted)| now != wanted);
            stale.push(format!("{page}: {differing:?}"));
        }
    }
    assert!(stale.is_empty(), "run this test with WRITE_PAGES=1: pages differ from --help\n{}", stale.join("\n"));
}

/// The subcommands that carry something out, by their whole names.
fn leaves(program: &Command) -> BTreeMap<String, Command> {
    let mut found = BTreeMap::new();
    let mut open = vec![(program.get_name().to_owned(), program.clone())];
    while let Some((name, command)) = open.pop() {
        let below: Vec<&Command> = command.get_subcommands().filter(|below| is_shown(below)).collect();
        open.extend(below.iter().map(|below| (format!("{name} {}", below.get_name()), (*below).clone())));
        if below.is_empty() {
            found.insert(name, command);
        }
    }
    found
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// The names in the comments before blocks.
fn markers(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(" -->"))
}

/// The subcommands of a block of shared options.
fn group(marker: &str) -> Option<Group> {
    marker.contains(", ").then(|| marker.split(", ").map(str::to_owned).collect())
}

/// The page with each block of this program as it has to be.
fn rewrite(text: &str, commands: &BTreeMap<String, Command>, groups: &[Group]) -> Result<String, String> {
    let (mut written, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        written.push_str(line);
        written.push('\n');
        let Some(marker) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        let block = match group(marker) {
            Some(group) => render::shared(&known(&group, commands)?),
            None => render::own(&known(&vec![marker.to_owned()], commands)?, groups, commands),
        };
        written.push_str(&block);
        written.push_str(END);
        written.push('\n');
        lines.by_ref().find(|line| *line == END).ok_or(format!("{marker}: `{END}` is missing"))?;
    }
    Ok(written)
}

fn known<'a>(names: &Group, commands: &'a BTreeMap<String, Command>) -> Result<Vec<(&'a str, &'a Command)>, String> {
    let find = |name: &String| commands.get_key_value(name).map(|(name, command)| (name.as_str(), command));
    names.iter().map(|name| find(name).ok_or(format!("there is no subcommand {name}"))).collect()
}

fn path(page: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)
}

fn read(page: &str) -> String {
    std::fs::read_to_string(path(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, value_parser};

    use super::*;

    fn program() -> Command {
        let uri = || Arg::new("uri").long("uri").help("The server").default_value("here");
        let size = Arg::new("size").long("size").value_name("MIB").value_parser(value_parser!(u32).range(5..=70));
        let look = Command::new("look").arg(uri()).arg(size.help("Memory [default: all]"));
        let mend = Command::new("mend").arg(uri()).arg(Arg::new("id").required(true).help("What to mend"));
        let mut program =
            Command::new("tool").subcommand(look).subcommand(mend).subcommand(Command::new("x").hide(true));
        program.build();
        program
    }

    fn written(page: &str) -> Result<String, String> {
        let groups: Vec<Group> = markers(page).filter_map(group).collect();
        rewrite(page, &leaves(&program()), &groups)
    }

    #[test]
    fn a_block_has_usage_values_limits_and_defaults() {
        let page = written("<!-- options: tool look -->\nold\n<!-- end -->\nafter\n").unwrap();
        for line in [
            "tool look [OPTIONS]",
            "| `--uri` | `URI` | `here` | The server |",
            "| `--size` | `MIB`: whole number, 5 to 70 | all | Memory |",
            "after",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}: {page}");
        }
        assert!(!page.contains("old") && !page.contains("--help"), "{page}");
        assert_eq!(written(&page).unwrap(), page);
    }

    #[test]
    fn shared_options_stand_in_their_own_block_only() {
        let shared = "<!-- options: tool look, tool mend -->\n<!-- end -->\n";
        let page = written(&format!("{shared}<!-- options: tool mend -->\n<!-- end -->\n")).unwrap();
        assert_eq!(page.matches("`--uri`").count(), 1, "{page}");
        assert!(page.contains("| `ID` | argument | required | What to mend |"), "{page}");
    }

    #[test]
    fn blocks_of_no_subcommand_and_without_an_end_are_named() {
        assert!(written("<!-- options: tool lok -->\n<!-- end -->\n").unwrap_err().contains("tool lok"));
        assert!(written("<!-- options: tool look -->\n").unwrap_err().contains("<!-- end -->"));
        assert_eq!(leaves(&program()).into_keys().collect::<Vec<_>>(), ["tool look", "tool mend"]);
    }
}
