//! The plan, and the page of results that were made up.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use benchkit::report::fake;
use clap::Parser;

use super::{
    figures::{PaperFigure, Work},
    measure::Measured,
    *,
};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: PapersArgs,
}

fn args(words: &[&str]) -> PapersArgs {
    Line::try_parse_from(["papers"].iter().chain(words)).unwrap().args
}

#[test]
fn workloads_that_this_version_has_take_the_options_of_the_plan() {
    use clap::Subcommand;
    let known = crate::workload::registry::WorkloadCommand::<crate::run::RunArgs>::augment_subcommands(
        clap::Command::new("bench"),
    );
    for measurement in plan::of(FIGURES, &args(&[])).unwrap() {
        let name = measurement.work.command.split(' ').next().unwrap();
        let exists = known.find_subcommand(name).is_some();
        assert_eq!(measurement.spec.is_ok(), exists, "{}: {:?}", measurement.work.command, measurement.spec.err());
        if exists {
            let run = measurement.run_args(&args(&[]), 2, 4).unwrap();
            assert_eq!((run.rounds.get(), run.seconds.get(), run.durability().journaled), (2, 4, true));
            assert_eq!((run.targets, run.clients), (measurement.targets, measurement.clients));
        }
    }
}

#[test]
fn measurement_that_several_figures_need_is_made_once_for_all() {
    let plan = plan::of(FIGURES, &args(&[])).unwrap();
    let works: Vec<&str> = plan.iter().map(|measurement| measurement.work.name).collect();
    assert_eq!(works.len(), benchkit::report::summary::distinct(works.clone()).len(), "{works:?}");
    let update_heavy = plan.iter().find(|measurement| measurement.work.name == "update-heavy").unwrap();
    assert_eq!(update_heavy.clients, [1, 2, 4, 8, 12, 32, 128]);
}

#[test]
fn figures_are_chosen_by_their_names() {
    let chosen = args(&["--figures", "000-13,000-9"]).chosen(FIGURES).unwrap();
    assert_eq!(chosen.iter().map(|figure| figure.id).collect::<Vec<_>>(), ["000-9", "000-13"]);
    let said = args(&["--figures", "000-1"]).chosen(FIGURES).unwrap_err().to_string();
    assert!(said.contains("--figures") && said.contains("000-1") && said.contains("001-7"), "{said}");
}

#[test]
fn figures_that_one_machine_cannot_show_say_why() {
    let none: Vec<&PaperFigure> = FIGURES.iter().filter(|figure| figure.works.is_empty()).collect();
    assert_eq!(none.iter().map(|figure| figure.id).collect::<Vec<_>>(), ["000-12", "000-15"]);
    assert!(none.iter().all(|figure| figure.here.starts_with("Left out")));
}

/// Results that were made up, as if measured: "ycsb c" was not.
fn measured() -> (Vec<PaperFigure>, Vec<Measured>) {
    const A: Work = Work { name: "update-heavy", command: "ycsb --core a" };
    const C: Work = Work { name: "read-only", command: "ycsb --core c" };
    let figures = vec![PaperFigure { works: &[A, C], ..FIGURES[0] }, PaperFigure { works: &[A, C], ..FIGURES[1] }];
    let plan = plan::of(&figures, &args(&[])).unwrap();
    let all = plan.into_iter().map(|measurement| {
        let mut result = fake::realistic();
        result.runs.retain(|run| run.workload == "ycsb c");
        result.facts.push(format!("Work: {}", measurement.work.name));
        let is_a = measurement.work == A;
        let outcome = if is_a { Ok(result) } else { Err("no server".to_owned()) };
        Measured { measurement, command: "mongotx-bench …".to_owned(), outcome }
    });
    (figures, all.collect())
}

#[test]
fn section_shows_its_own_targets_and_clients_and_says_what_is_missing() {
    let (figures, measured) = measured();
    let page = output::page(&figures, &measured, "mongotx-bench papers");
    let [nine, ten] = &page.sections[..] else { panic!("two sections") };
    let rows = |section: &benchkit::report::html::page::Section| section.tables[0].rows.len();
    assert_eq!((rows(nine), rows(ten)), (3, 9), "one client with three targets; three of the numbers of clients");
    assert!(nine.prose.iter().any(|text| text.starts_with("Mean latency here, plain = 1. mongotx: update-heavy ")));
    assert!(nine.prose.contains(&"Not measured: read-only: no server.".to_owned()), "{:?}", nine.prose);
    assert_eq!(nine.notes, ["update-heavy: mongotx-bench …"]);
    assert_eq!(page.facts.len(), 4, "those of the only result, and the durability of the papers");
}

#[test]
fn page_and_markdown_and_results_are_written() {
    let (figures, measured) = measured();
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("deeper").join("papers");
    let args = args(&["--out", out.to_str().unwrap()]);
    output::make_directory(&args.out).unwrap();
    let written = output::write(&figures, &measured, &args, "mongotx-bench papers").unwrap();
    assert!(!written.complete && !written.broken && written.said.contains("papers.html"), "{written:?}");
    for (file, expected) in [("papers.html", "figure 10"), ("papers.md", "## Paper 000, figure 9")] {
        let text = std::fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains(expected), "{file}");
    }
    assert!(benchkit::report::read(&out.join("update-heavy.json")).is_ok());
    assert!(!out.join("read-only.json").exists());
}
