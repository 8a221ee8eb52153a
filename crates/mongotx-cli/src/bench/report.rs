//! A benchmark's result, printed as text and as Markdown: the conditions, then tables with their notes.

use std::path::PathBuf;

use clap::Args;

use super::BenchError;
use crate::say;

/// Where the result goes.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print the tables as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Write the tables, as Markdown, into this file too.
    #[arg(long)]
    markdown_file: Option<PathBuf>,
}

impl OutputArgs {
    /// Prints the result, and writes it where it was asked for.
    pub(crate) fn print(&self, report: &Report) -> Result<(), BenchError> {
        let markdown = report.to_markdown();
        if self.markdown {
            say::line(&markdown);
        } else {
            say::line(&report.to_text());
        }
        match &self.markdown_file {
            Some(file) => std::fs::write(file, markdown)
                .map_err(|error| BenchError::Failed(format!("--markdown-file {}: {error}", file.display()))),
            None => Ok(()),
        }
    }
}

/// A benchmark's result.
pub(crate) struct Report {
    /// Under what conditions was measured.
    pub(crate) facts: Vec<String>,
    /// The tables.
    pub(crate) sections: Vec<Section>,
}

/// One table.
pub(crate) struct Section {
    /// The headings of the columns.
    pub(crate) head: Vec<&'static str>,
    /// How many of the first columns are text; the others are numbers, and aligned to the right.
    pub(crate) text_columns: usize,
    /// The lines, each with as many cells as there are headings.
    pub(crate) rows: Vec<Vec<String>>,
    /// What is to be said below.
    pub(crate) notes: &'static str,
}

impl Report {
    /// Aligned columns for a terminal.
    pub(crate) fn to_text(&self) -> String {
        let mut lines = self.facts.clone();
        for section in &self.sections {
            lines.push(String::new());
            lines.extend(section.lines("  ", "  ", ""));
            lines.extend([String::new(), section.notes.to_owned()]);
        }
        lines.join("\n")
    }

    /// Markdown tables with the same columns, conditions before and notes after them.
    pub(crate) fn to_markdown(&self) -> String {
        let mut lines: Vec<String> = self.facts.iter().map(|fact| format!("- {fact}")).collect();
        for section in &self.sections {
            let mut table = section.lines("| ", " | ", " |");
            table.insert(1, section.rule());
            lines.push(String::new());
            lines.extend(table);
            lines.extend([String::new(), section.notes.to_owned()]);
        }
        lines.join("\n") + "\n"
    }
}

impl Section {
    /// What stands between the headings and the lines of a Markdown table.
    fn rule(&self) -> String {
        let rule = (0..self.head.len()).map(|at| if at < self.text_columns { "| --- " } else { "| ---: " });
        format!("{}|", rule.collect::<String>())
    }

    fn lines(&self, before: &str, between: &str, after: &str) -> Vec<String> {
        let mut cells = vec![self.head.iter().map(|&name| name.to_owned()).collect()];
        cells.extend(self.rows.iter().cloned());
        let length = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
        let width = |column: usize| cells.iter().map(|row| length(row, column)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let padded = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column < self.text_columns { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            format!("{before}{}{after}", padded.collect::<Vec<_>>().join(between))
        };
        cells.iter().map(line).map(|line| line.trim_end().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_to_the_right_and_markdown_says_so() {
        let rows = vec![vec!["é".to_owned(), "1".to_owned()], vec!["long".to_owned(), "22".to_owned()]];
        let sections = vec![Section { head: vec!["a", "number"], text_columns: 1, rows, notes: "note" }];
        let report = Report { facts: vec!["fact".to_owned()], sections };
        assert_eq!(report.to_text(), "fact\n\n  a     number\n  é          1\n  long      22\n\nnote");
        let table = "| a    | number |\n| --- | ---: |\n| é    |      1 |\n| long |     22 |";
        assert_eq!(report.to_markdown(), format!("- fact\n\n{table}\n\nnote\n"));
    }
}
