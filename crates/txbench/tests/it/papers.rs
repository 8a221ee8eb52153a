//! Figures of a paper, measured on a real server: small ones, made for this test.

use clap::Parser;
use txbench::papers::{
    self, PapersArgs,
    figures::{FIGURES, PaperFigure, Work},
};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: PapersArgs,
}

const WORKS: &[Work] = &[
    Work { name: "mixed", command: "ycsb --core a --fields 2" },
    Work { name: "reads", command: "ycsb --core c --fields 2" },
    Work { name: "dreams", command: "ycsb-z" },
];

#[tokio::test(flavor = "multi_thread")]
async fn figures_measured_on_a_server_are_on_the_page() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("papers");
    let words =
        ["papers", "--seconds", "1", "--records", "200", "--uri", &server.uri(), "--out", out.to_str().unwrap()];
    let args = Line::try_parse_from(words).unwrap().args;
    let targets = &["plain", "mongotx", "no-such-target"];
    let [nine, .., eleven, twelve] = &FIGURES[..4] else { panic!("four figures") };
    let figures = [
        PaperFigure { works: WORKS, targets, ..*nine },
        PaperFigure { works: &WORKS[..2], targets, ..*eleven },
        *twelve,
    ];

    let written = papers::run_papers(&figures, &args, "mongotx-bench papers", &|_| ()).await.unwrap();

    assert!(!written.complete, "one workload does not exist");
    assert!(!written.broken, "{}", written.said);
    for expected in
        ["Mean latency here, plain = 1. mongotx: mixed ", "Not measured: dreams:", "with no-such-target", "Left out"]
    {
        assert!(written.said.contains(expected), "{expected:?} is missing in\n{}", written.said);
    }
    let mixed = benchkit::report::read(&out.join("mixed.json")).unwrap();
    assert_eq!(mixed.runs.len(), 2, "each target once, though two figures need it");
    assert!(mixed.runs.iter().all(|run| run.counts.committed() > 0 && run.broken.is_none()));
    assert!(mixed.facts.iter().any(|fact| fact.contains("{w: 1, j: true}")), "{:?}", mixed.facts);
    let page = std::fs::read_to_string(out.join("papers.html")).unwrap();
    assert!(page.contains("figure 9") && page.contains("commands per operation"));
}

#[tokio::test]
async fn directory_that_cannot_be_made_is_refused_before_anything_is_measured() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let out = file.path().join("papers");
    let args = Line::try_parse_from(["papers", "--out", out.to_str().unwrap()]).unwrap().args;
    let refused = papers::run_papers(FIGURES, &args, "", &|_| panic!("something is measured")).await.unwrap_err();
    assert!(refused.to_string().starts_with("--out "), "{refused}");
}
