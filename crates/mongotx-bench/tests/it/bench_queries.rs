//! `mongotx-bench queries` as a user runs it: a tiny run of every shape, and arguments that are
//! refused.

use crate::common;

use common::run_bench;

/// Every shape, as `--shapes` and the table name it.
const SHAPES: [(&str, &str); 11] = [
    ("id", "find by _id"),
    ("equality", "find {code}"),
    ("range20", "find {k: range of 20}"),
    ("range20-stale", "find {k: range of 20}, max_staleness 1 s"),
    ("range1000", "find {k: range of 1000}"),
    ("compound", "find {group}, sort {k: -1}, limit 20"),
    ("sort", "find {}, sort {k: ±1}, limit 20"),
    ("count", "count {k: range of 1000}"),
    ("near", "find {place: $near}, limit 20"),
    ("group", "$match {k: range of 1000}, $group"),
    ("lookup", "$match {k: range of 20}, $lookup"),
];
const TINY: [&str; 7] = ["queries", "--documents", "1000", "--seconds", "0.02", "--pending", "0,10"];

/// The cells of the Markdown lines that begin with this shape.
fn lines_of<'a>(markdown: &'a str, title: &str) -> Vec<Vec<&'a str>> {
    let cells = |line: &'a str| -> Vec<&'a str> { line.trim_matches('|').split('|').map(str::trim).collect() };
    markdown.lines().filter(|line| line.starts_with('|')).map(cells).filter(|cells| cells[0] == title).collect()
}

#[test]
fn a_tiny_run_tells_every_shape_in_finite_numbers_and_with_its_plans() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.md");
    let (status, said) = run_bench(TINY.into_iter().chain(["--explain", "--markdown-file", file.to_str().unwrap()]));
    assert_eq!(status, 0, "{said}");
    let markdown = std::fs::read_to_string(file).unwrap();
    for conditions in ["cores", "mongod ", "1000 of ", "0, 10 documents", "seed 1"] {
        assert!(said.contains(conditions) && markdown.contains(conditions), "{conditions:?} is missing in\n{said}");
    }
    for (_, title) in SHAPES {
        assert!(said.contains(&format!("\n  {title}  ")), "{title:?} is missing in\n{said}");
        let lines = lines_of(&markdown, title);
        let (latencies, plans): (Vec<_>, Vec<_>) = lines.into_iter().partition(|cells| cells.len() == 11);
        let of = |cells: &Vec<&str>| [cells[1].to_owned(), cells[2].to_owned()];
        let expected = [["no", "0"], ["no", "10"], ["yes", "0"], ["yes", "10"]].map(|line| line.map(str::to_owned));
        assert_eq!(latencies.iter().map(of).collect::<Vec<_>>(), expected, "{title}: {markdown}");
        let counts: Vec<&str> = plans.iter().map(|cells| cells[2]).collect();
        assert!(counts.contains(&"0") && counts.contains(&"10"), "{title}: {plans:?}");
        for cells in &latencies {
            let numbers: Vec<f64> = cells[3..].iter().map(|cell| cell.parse().unwrap()).collect();
            assert!(numbers.iter().all(|number| number.is_finite()), "{title}: {cells:?}");
            let [.., plain, mongotx] = numbers[..] else { panic!("{cells:?}") };
            assert!(plain >= 1.0 && mongotx >= 1.0, "{title}: a query without a command: {cells:?}");
        }
        for plan in plans.iter().flat_map(|cells| &cells[3..]) {
            let known =
                ["IXSCAN ", "COUNT_SCAN ", "IDHACK", "GEO_NEAR_2DSPHERE "].iter().any(|stage| plan.contains(stage));
            assert!(known && !plan.contains('?'), "{title}: {plan:?}");
        }
    }
}

#[test]
fn commands_are_counted_on_both_sides() {
    let (status, said) =
        run_bench(TINY.into_iter().chain(["--shapes", "id,sort", "--mirrored", "false", "--markdown"]));
    assert_eq!(status, 0, "{said}");
    let commands = |title, pending| {
        let lines = lines_of(&said, title);
        let cells = lines.into_iter().find(|cells| cells[2] == pending).unwrap();
        [cells[9], cells[10]].map(|cell| cell.parse::<f64>().unwrap())
    };
    assert_eq!(commands("find by _id", "0"), [1.0, 1.0], "{said}");
    // Every pending document could be among the first: the query, and what became of its writer.
    let [plain, mongotx] = commands("find {}, sort {k: ±1}, limit 20", "10");
    assert!((plain - 1.0).abs() < 1e-9 && mongotx >= 2.0, "{said}");
}

#[test]
fn documents_may_be_held_by_the_client_that_asks() {
    let held = ["--held-by", "another,same", "--shapes", "sort", "--mirrored", "false", "--markdown"];
    let (status, said) = run_bench(TINY.into_iter().chain(held));
    assert_eq!(status, 0, "{said}");
    let pending: Vec<&str> = lines_of(&said, "find {}, sort {k: ±1}, limit 20").iter().map(|cells| cells[2]).collect();
    assert_eq!(pending, ["0", "10", "10, same client"], "{said}");
    assert!(said.contains("of another client, or of the same client"), "{said}");
}

#[test]
fn a_server_that_is_named_is_left_as_it_was() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server = local_mongod::Server::standalone().await.unwrap();
        let uri = server.uri();
        let databases = async || {
            let names = server.client().await.unwrap().list_database_names().await.unwrap();
            // The server makes this one by itself, when it likes.
            names.into_iter().filter(|name| name != "config").collect::<Vec<_>>()
        };
        let before = databases().await;
        let args: Vec<String> =
            TINY.into_iter().chain(["--shapes", "equality", "--uri", &uri]).map(str::to_owned).collect();
        let asked = tokio::task::spawn_blocking(move || run_bench(args.iter().map(String::as_str)));
        let (status, said) = asked.await.unwrap();
        assert_eq!(status, 0, "{said}");
        assert_eq!(databases().await, before, "{said}");
    });
}

#[test]
fn bad_arguments_are_refused_and_named() {
    for (option, value, words) in [
        ("--documents", "999", "1000..=10000000"),
        ("--documents", "x", "invalid digit"),
        ("--pending", "0,-1", "-1"),
        ("--pending", "100001", "0..=100000"),
        ("--mirrored", "true,perhaps", "perhaps"),
        ("--seconds", "0", "0.01 to 3600"),
        ("--seconds", "NaN", "0.01 to 3600"),
        ("--shapes", "id,star", "star"),
        ("--seed", "-1", "--seed"),
    ] {
        let (status, said) = run_bench(["queries", &format!("{option}={value}")]);
        assert_eq!(status, 2, "{option} {value}: {said}");
        assert!(
            said.contains(option) && said.contains(words) && !said.contains("panicked"),
            "{option} {value}: {said}"
        );
    }
}

#[test]
fn more_pending_documents_than_there_are_is_refused() {
    let (status, said) = run_bench(["queries", "--documents", "1000", "--pending", "0,1001"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("--pending") && said.contains("1001") && said.contains("--documents"), "{said}");
}

#[test]
fn every_shape_can_be_chosen_by_its_name() {
    let (status, said) = run_bench(["queries", "--help"]);
    assert_eq!(status, 0, "{said}");
    for (name, _) in SHAPES {
        assert!(said.contains(&format!("- {name}:")), "{name:?} is missing in\n{said}");
    }
}
