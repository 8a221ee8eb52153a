//! Output of results: the text for the terminal, and the files that the options name. They are
//! tried before anything is measured.

use std::path::Path;

use super::{args::OutputArgs, file, html, result::BenchResult, table::Report, tables};
use crate::Error;

const MARKDOWN: &str = "--markdown-file";
const JSON: &str = "--json";
const HTML: &str = "--html";

/// Writes the files that the options name; returns the text to print.
///
/// # Errors
/// [`Error::Failed`] for a file that cannot be written, by the name of the option.
pub fn write(result: &BenchResult, output: &OutputArgs) -> Result<String, Error> {
    if let Some(path) = &output.json {
        file::write_json(result, JSON, path)?;
    }
    if let Some(path) = &output.html {
        file::write_text(&html::page(result), HTML, path)?;
    }
    write_report(&tables::report(result), output.markdown, output.markdown_file.as_deref())
}

/// Writes the tables, as Markdown, to the file if there is one; returns the text to print.
///
/// # Errors
/// [`Error::Failed`] for a file that cannot be written.
pub fn write_report(report: &Report, as_markdown: bool, file: Option<&Path>) -> Result<String, Error> {
    let markdown = report.to_markdown();
    if let Some(file) = file {
        file::write_text(&markdown, MARKDOWN, file)?;
    }
    Ok(if as_markdown { markdown } else { report.to_text() })
}

/// Checks that the files of the options can be written, before hours are spent on measuring.
///
/// # Errors
/// [`Error::Refused`], by the name of the option.
pub fn check(output: &OutputArgs) -> Result<(), Error> {
    for (option, file) in [(MARKDOWN, &output.markdown_file), (JSON, &output.json), (HTML, &output.html)] {
        let Some(file) = file else { continue };
        let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !directory.is_dir() || file.is_dir() {
            let what = if file.is_dir() { "is a directory" } else { "is in no directory that exists" };
            return Err(Error::Refused(format!("{option}: {} {what}", file.display())));
        }
    }
    Ok(())
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
        let output = OutputArgs {
            json: path("a.json"),
            html: path("a.html"),
            markdown_file: path("a.md"),
            ..OutputArgs::default()
        };
        let printed = write(&fake::realistic(), &output).unwrap();
        assert!(printed.contains("ycsb a") && !printed.contains("| --- |"), "{printed}");
        let markdown = std::fs::read_to_string(path("a.md").unwrap()).unwrap();
        assert!(markdown.contains("| --- |"));
        assert!(std::fs::read_to_string(path("a.html").unwrap()).unwrap().starts_with("<!DOCTYPE html>"));
        assert_eq!(file::read(&path("a.json").unwrap()).unwrap().runs.len(), fake::realistic().runs.len());
        let output = OutputArgs { markdown: true, ..OutputArgs::default() };
        assert_eq!(write(&fake::realistic(), &output).unwrap(), markdown);
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

    #[test]
    fn place_that_cannot_be_is_found_before() {
        let directory = tempfile::tempdir().unwrap();
        let said = |html: std::path::PathBuf| check(&OutputArgs { html: Some(html), ..OutputArgs::default() });
        assert!(said(directory.path().join("x.html")).is_ok());
        assert!(said("x.html".into()).is_ok(), "the directory one is in");
        let refused = said(directory.path().to_path_buf()).unwrap_err().to_string();
        assert!(refused.starts_with("--html: ") && refused.ends_with("is a directory"), "{refused}");
        assert!(said("/there/is/no/such/directory/x.html".into()).is_err());
    }
}
