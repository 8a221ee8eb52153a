//! Results in files: written as JSON, read again, several made one.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    result::{BenchResult, FORMAT, RunResult},
    summary::{Setting, distinct},
};
use crate::Error;

/// A file larger than this is none of ours: a run with its histograms takes some ten kilobytes.
const LARGEST_BYTES: u64 = 256 << 20;
/// As large a count as a JSON reader must keep exactly.
const LARGEST_COUNT: u64 = 1 << 53;
const MOST_RUNS: usize = 100_000;

/// The version alone, which is looked at before anything else.
#[derive(Deserialize)]
struct Form {
    format: u32,
}

/// Reads a result that was written to a file as JSON.
///
/// # Errors
/// [`Error::Refused`], which names the file: it cannot be read, is no result, is of another
/// version, or has numbers that no run can have.
pub fn read(file: &Path) -> Result<BenchResult, Error> {
    let refused = |reason: String| Error::Refused(format!("{}: {reason}", file.display()));
    let size = fs::metadata(file).map_err(|error| refused(error.to_string()))?.len();
    if size > LARGEST_BYTES {
        return Err(refused(format!("{size} bytes are too many for a result; at most {LARGEST_BYTES} are read")));
    }
    let text = fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
    parse(&text).map_err(refused)
}

fn parse(text: &str) -> Result<BenchResult, String> {
    let none = |error| format!("not the result of a benchmark: {error}");
    let Form { format } = serde_json::from_str(text).map_err(none)?;
    if format != FORMAT {
        return Err(format!("a result of format {format}; this version reads format {FORMAT}"));
    }
    let result: BenchResult = serde_json::from_str(text).map_err(none)?;
    if result.runs.len() > MOST_RUNS {
        return Err(format!("{} runs; at most {MOST_RUNS} are read", result.runs.len()));
    }
    match result.runs.iter().position(|run| !plausible(run)) {
        Some(at) => Err(format!("run {} has numbers that no run can have", at + 1)),
        None => Ok(result),
    }
}

/// Returns true if the numbers can be added and divided by.
fn plausible(run: &RunResult) -> bool {
    let kinds = run.counts.kinds.values();
    let of_kind = kinds.flat_map(|kind| {
        let own = [kind.latencies.count(), kind.rolled_back, kind.given_up];
        own.into_iter().chain(kind.conflicts.values().copied())
    });
    let of_seconds = run.counts.seconds.iter().flat_map(|second| [second.committed, second.conflicts]);
    let mut counts = of_kind.chain(of_seconds).chain(run.commands.values().copied()).chain([run.counts.operations]);
    run.seconds > 0.0 && run.seconds.is_finite() && counts.all(|count| count <= LARGEST_COUNT)
}

/// Writes a result, or anything else, as JSON.
///
/// # Errors
/// [`Error::Failed`], which names the option.
pub fn write_json(result: &impl Serialize, option: &str, file: &Path) -> Result<(), Error> {
    let failed = |reason: String| Error::Failed(format!("{option} {}: {reason}", file.display()));
    let text = serde_json::to_string(result).map_err(|error| failed(error.to_string()))?;
    write_text(&text, option, file)
}

/// Writes a text.
///
/// # Errors
/// [`Error::Failed`], which names the option.
pub(super) fn write_text(text: &str, option: &str, file: &Path) -> Result<(), Error> {
    fs::write(file, text).map_err(|error| Error::Failed(format!("{option} {}: {error}", file.display())))
}

/// Makes one result of several. Runs of the same target in the same setting become further rounds;
/// what is not a fact of all of them is said with the title it belongs to.
pub fn merge(results: Vec<BenchResult>) -> BenchResult {
    let joined = |texts: Vec<&str>, between: &str| distinct(texts).join(between);
    let title = joined(results.iter().map(|result| result.title.as_str()).collect(), ", ");
    let command = joined(results.iter().map(|result| result.command.as_str()).collect(), " && ");
    let facts = merge_facts(&results);
    let mut runs: Vec<RunResult> = Vec::new();
    for result in results {
        let before = runs.len();
        for mut run in result.runs {
            let same = |earlier: &&RunResult| earlier.target == run.target && Setting::of(earlier) == Setting::of(&run);
            let last = runs[..before].iter().filter(same).map(|earlier| earlier.round).max();
            run.round = run.round.saturating_add(last.unwrap_or(0));
            runs.push(run);
        }
    }
    BenchResult { format: FORMAT, title, command, facts, runs }
}

fn merge_facts(results: &[BenchResult]) -> Vec<String> {
    let of_all = |fact: &String| results.iter().all(|result| result.facts.contains(fact));
    let each = results.iter().flat_map(|result| result.facts.iter().map(move |fact| (result, fact)));
    distinct(each.map(|(result, fact)| if of_all(fact) { fact.clone() } else { format!("{}: {fact}", result.title) }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::report::{fake, summary::Summary};

    #[test]
    fn result_read_again_gives_the_same_figures() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("result.json");
        let result = fake::realistic();
        write_json(&result, "--json", &file).unwrap();
        let [before, after] = [&result, &read(&file).unwrap()].map(|result| format!("{:?}", Summary::of(result)));
        assert_eq!(before, after);
    }

    #[test]
    fn what_is_no_result_is_refused_with_the_reason() {
        assert!(parse("{").unwrap_err().contains("not the result of a benchmark"));
        assert!(parse("{\"title\": \"x\"}").unwrap_err().contains("format"));
        let other = serde_json::to_string(&fake::result("x", vec![])).unwrap().replacen(":1,", ":7,", 1);
        assert_eq!(parse(&other).unwrap_err(), "a result of format 7; this version reads format 1");
        let said = read(Path::new("/there/is/no/such/file")).unwrap_err().to_string();
        assert!(said.starts_with("/there/is/no/such/file: "), "{said}");
    }

    #[test]
    fn numbers_that_would_overflow_are_refused() {
        let mut run = fake::empty("w", "plain", 1, 1, 1.0);
        run.commands.insert("find".to_owned(), u64::MAX);
        let of = |run: &RunResult| parse(&serde_json::to_string(&fake::result("x", vec![run.clone()])).unwrap());
        assert_eq!(of(&run).unwrap_err(), "run 1 has numbers that no run can have");
        run.commands.clear();
        assert!(of(&run).is_ok());
        run.seconds = 0.0;
        assert!(of(&run).is_err());
    }

    #[test]
    fn merged_rounds_are_counted_on_and_facts_keep_their_origin() {
        let run = |round| fake::empty("w", "plain", 1, round, 1.0);
        let mut other = fake::result("other", vec![run(1), run(2)]);
        other.facts.push("only here".to_owned());
        let merged = merge(vec![fake::result("one", vec![run(1), run(2)]), other]);
        assert_eq!(merged.runs.iter().map(|run| run.round).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(merged.title, "one, other");
        assert_eq!(merged.facts.len(), 3);
        assert_eq!(merged.facts[2], "other: only here");
    }
}
