//! `docs/workbench.md` names every benchmark of `mongotx-bench` and every option that its help
//! names, and no others.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::run_bench;

const PAGE: &str = include_str!("../../../../docs/workbench.md");

/// All options of the form `--option` in a text.
fn options(text: &str) -> BTreeSet<String> {
    let name = |rest: &str| {
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(rest.len());
        format!("--{}", &rest[..end])
    };
    text.split("--").skip(1).map(name).filter(|name| name.len() > 2 && !name.starts_with("---")).collect()
}

/// The options that a help explains; those that it mentions besides are others' or its own.
fn explained(command: &[&str]) -> BTreeSet<String> {
    let (status, help) = run_bench(command.iter().chain(&["--help"]).copied());
    assert_eq!(status, 0, "{command:?}: {help}");
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with("--"));
    let named = lines.filter_map(|line| options(line.split(' ').next()?).into_iter().next());
    named.filter(|name| name != "--help").collect()
}

fn commands() -> BTreeSet<String> {
    let (_, help) = run_bench(["--help"]);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| !["demo", "help"].contains(name))
        .map(str::to_owned)
        .collect()
}

/// The options that the page's table has for each command, and the table of the options that
/// several share.
fn page() -> (BTreeMap<String, BTreeSet<String>>, BTreeSet<String>) {
    let section = PAGE.split("## Commands").nth(1).unwrap().split("\n## ").next().unwrap();
    let row = |line: &str| {
        let name = line.strip_prefix("| `mongotx-bench ")?.split('`').next()?.to_owned();
        Some((name, options(line.trim_end_matches('|').rsplit(" | ").next()?)))
    };
    let shared = section.lines().filter(|line| line.starts_with("| `--"));
    (section.lines().filter_map(row).collect(), shared.flat_map(options).collect())
}

#[test]
fn every_command_and_option_is_on_the_page_and_exists() {
    let (listed, shared) = page();
    assert_eq!(listed.keys().cloned().collect::<BTreeSet<_>>(), commands());
    let output = ["--markdown", "--markdown-file", "--json", "--html"].map(str::to_owned).into();
    for (command, own) in listed {
        let all: BTreeSet<String> = match command.as_str() {
            "bank" | "bank-table" | "checkin" | "hot-spot" | "tpcc" | "transfer" | "ycsb" => &own | &shared,
            "report" => &own | &output,
            _ => own,
        };
        assert_eq!(all, explained(&[&command]), "{command}");
    }
}
