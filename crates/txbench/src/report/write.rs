//! Where a result goes.

use super::{file, result::BenchResult, table::Report, tables};
use crate::{error::BenchError, run::OutputArgs};

/// Writes the files that were asked for; answers what is to be printed.
///
/// # Errors
/// [`BenchError::Failed`] for a file that cannot be written, by the name of the option; [`BenchError::Refused`] for a page.
pub fn write(result: &BenchResult, output: &OutputArgs) -> Result<String, BenchError> {
    if output.html.is_some() {
        return Err(BenchError::Refused("--html: pages cannot be written yet".to_owned()));
    }
    if let Some(path) = &output.json {
        file::write_json(result, "--json", path)?;
    }
    let report = tables::report(result);
    write_report(&report, output)
}

/// The same for a report that is nothing but tables: answers what is to be printed, and writes the Markdown that was asked
/// for.
///
/// # Errors
/// As [`write`].
pub fn write_report(report: &Report, output: &OutputArgs) -> Result<String, BenchError> {
    let markdown = report.to_markdown();
    if let Some(path) = &output.markdown_file {
        file::write_text(&markdown, "--markdown-file", path)?;
    }
    Ok(if output.markdown { markdown } else { report.to_text() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::report::fake;

    #[test]
    fn files_that_were_asked_for_are_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(directory.path().join(name));
        let output = OutputArgs { json: path("a.json"), markdown_file: path("a.md"), ..OutputArgs::default() };
        let printed = write(&fake::realistic(1), &output).unwrap();
        assert!(printed.contains("ycsb a") && !printed.contains("| --- |"), "{printed}");
        let markdown = std::fs::read_to_string(path("a.md").unwrap()).unwrap();
        assert!(markdown.contains("| --- |"));
        assert_eq!(file::read(&path("a.json").unwrap()).unwrap().runs.len(), fake::realistic(1).runs.len());
        let output = OutputArgs { markdown: true, ..OutputArgs::default() };
        assert_eq!(write(&fake::realistic(1), &output).unwrap(), markdown);
    }

    #[test]
    fn file_that_cannot_be_written_is_refused_by_its_option() {
        let nowhere = Some(std::path::PathBuf::from("/there/is/no/such/directory"));
        let mut output = OutputArgs { json: nowhere.clone(), ..OutputArgs::default() };
        let said = |output: &OutputArgs| write(&fake::result("x", vec![]), output).unwrap_err().to_string();
        assert!(said(&output).starts_with("--json /there/is/no/such/directory: "), "{}", said(&output));
        (output.json, output.markdown_file) = (None, nowhere);
        assert!(said(&output).starts_with("--markdown-file /there/is/no/such/directory: "), "{}", said(&output));
    }
}
