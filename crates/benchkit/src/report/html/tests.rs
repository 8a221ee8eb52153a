//! The page of a realistic result, and of one with titles that would tear it apart.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::Value;

use super::*;
use crate::report::{fake, summary::Line};

/// Data for the page's script.
fn data(page: &str) -> Value {
    let (_, after) = page.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

fn numbers(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Number(number) => into.push(number.as_f64().unwrap()),
        Value::Array(values) => values.iter().for_each(|value| numbers(value, into)),
        Value::Object(fields) => fields.values().for_each(|value| numbers(value, into)),
        _ => {}
    }
}

#[test]
fn page_loads_nothing() {
    let page = page(&fake::realistic());
    for reference in ["http:", "https:", " src=", " href=", "url(", "@import", "<link", "<img", "import("] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn text_cannot_become_markup_or_script() {
    let mut result = fake::realistic();
    let hostile = "</script><script>alert(\"1\")</script><b title='x'>&amp;";
    (result.title, result.command) = (hostile.to_owned(), hostile.to_owned());
    result.facts.push(hostile.to_owned());
    for run in &mut result.runs {
        run.workload = hostile.to_owned();
        run.target += hostile;
        run.broken = run.broken.take().map(|_| hostile.to_owned());
        run.commands.insert(hostile.to_owned(), 1);
    }
    let page = page(&result);
    assert_eq!(page.matches("<script").count(), 6, "the data and five scripts");
    assert_eq!(page.matches("</script>").count(), 6);
    assert!(!page.contains("<b title"));
    let targets = data(&page)["targets"].as_array().unwrap().clone();
    assert!(targets[0]["name"].as_str().unwrap().ends_with(hostile), "the text itself is kept: {targets:?}");
}

#[test]
fn every_line_has_its_numbers_in_charts_and_tables() {
    let result = fake::realistic();
    let page = page(&result);
    let mut shown = Vec::new();
    numbers(&data(&page), &mut shown);
    let is_shown = |expected: f64| shown.iter().any(|n| (n - expected).abs() <= expected.abs() * 1e-5);
    let summary = Summary::of(&result);
    for line in &summary.lines {
        let Some(figures) = line.figures() else { continue };
        for expected in [figures.rate.median, figures.rate.least, figures.operations_rate.most, figures.mean_ms] {
            assert!(is_shown(expected), "{expected} of {}, {} clients", line.target, line.setting.clients);
        }
        assert!(page.contains(&format!(">{:.0}<", figures.rate.median)), "the table");
    }
    let seconds = result.runs.iter().filter(|run| run.broken.is_none()).flat_map(|run| &run.counts.seconds);
    assert!(seconds.into_iter().all(|second| is_shown(second.committed as f64)));
}

#[test]
fn broken_runs_are_reported_with_their_reason_and_have_no_figures() {
    let page = page(&fake::realistic());
    assert!(page.contains("<li>plain, 32 client(s): in 3 of 3 rounds: 1000 accounts hold 9993"));
    let scaling = data(&page)["figures"]
        .as_array()
        .unwrap()
        .iter()
        .find(|figure| figure["title"] == "Scaling over clients")
        .unwrap()
        .clone();
    let plain = &scaling["views"][0]["plot"]["series"][0];
    assert_eq!(plain["target"], "plain");
    let points: Vec<bool> =
        plain["points"].as_array().unwrap().iter().map(|point| point["broken"].is_string()).collect();
    assert_eq!(points, [false, false, true]);
}

#[test]
fn figures_that_would_be_empty_are_left_out() {
    let mut result = fake::realistic();
    result.runs.retain(|run| run.clients == 1 && run.workload == "ycsb c");
    result.runs.iter_mut().for_each(|run| run.commands.clear());
    let summary = Summary::of(&result);
    let titles: Vec<String> =
        charts::of_workload(&summary, &result.runs, "ycsb c").into_iter().map(|figure| figure.title).collect();
    let expected = [
        "Throughput against latency",
        "Latency by percentile",
        "Throughput over time",
        "Latency by kind of transaction",
    ];
    assert_eq!(titles, expected);
    let line: &Line = &summary.lines[0];
    assert!(line.figures().is_some());
}

#[test]
fn result_without_runs_is_a_page_too() {
    let page = page(&fake::result("nothing", vec![]));
    assert!(page.contains("<h1>Benchmark: nothing</h1>"));
}
