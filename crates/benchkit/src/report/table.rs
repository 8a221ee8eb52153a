//! A report in words: conditions, then tables with their notes; as aligned text and as Markdown.
//! What stands in the tables is not decided here.

use serde::{Deserialize, Serialize};

/// A report in words: the conditions of a measurement, and tables with its figures.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Conditions of the measurement, a line each, before the tables.
    pub facts: Vec<String>,
    /// Tables of the report, in the order in which they are printed.
    pub tables: Vec<Table>,
}

/// One table of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Title above the table; none when empty.
    pub title: String,
    /// Columns of the table, from left to right.
    pub columns: Vec<Column>,
    /// Lines of the table, below its headings.
    pub rows: Vec<Row>,
    /// Notes below the table; none when empty.
    pub notes: String,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Heading of the column, with the unit.
    pub head: String,
    /// True if the column holds numbers, which are aligned to the right.
    pub number: bool,
}

/// One line of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// A cell for each column; fewer where there is a remark.
    pub cells: Vec<String>,
    /// Text in place of the missing cells: the reason why there are none.
    pub remark: Option<String>,
}

impl Column {
    /// Makes a column of text.
    pub fn text(head: impl Into<String>) -> Self {
        Self { head: head.into(), number: false }
    }

    /// Makes a column of numbers.
    pub fn number(head: impl Into<String>) -> Self {
        Self { head: head.into(), number: true }
    }
}

impl From<Vec<String>> for Row {
    fn from(cells: Vec<String>) -> Self {
        Self { cells, remark: None }
    }
}

impl Report {
    /// Aligned columns for a terminal.
    pub fn to_text(&self) -> String {
        let mut lines = self.facts.clone();
        for table in &self.tables {
            let title = Some(&table.title).filter(|title| !title.is_empty());
            let notes = Some(&table.notes).filter(|notes| !notes.is_empty());
            lines.extend(title.iter().flat_map(|title| [String::new(), (*title).clone()]));
            lines.push(String::new());
            lines.extend(table.lines(&TEXT));
            lines.extend(notes.iter().flat_map(|notes| [String::new(), (*notes).clone()]));
        }
        lines.join("\n")
    }

    /// Markdown tables with the same columns, conditions before and notes after them.
    pub fn to_markdown(&self) -> String {
        let mut lines: Vec<String> = self.facts.iter().map(|fact| format!("- {fact}")).collect();
        for table in &self.tables {
            let title = Some(&table.title).filter(|title| !title.is_empty());
            let notes = Some(&table.notes).filter(|notes| !notes.is_empty());
            lines.extend(title.iter().flat_map(|title| [String::new(), format!("### {title}")]));
            lines.push(String::new());
            lines.extend(table.to_markdown());
            lines.extend(notes.iter().flat_map(|notes| [String::new(), (*notes).clone()]));
        }
        lines.join("\n") + "\n"
    }
}

/// Form in which the cells of a line are put together.
struct Form {
    before: &'static str,
    between: &'static str,
    after: &'static str,
    /// Format of one cell.
    cell: fn(&str) -> String,
}

const TEXT: Form = Form { before: "  ", between: "  ", after: "", cell: one_line };
const MARKDOWN: Form =
    Form { before: "| ", between: " | ", after: " |", cell: |cell| one_line(cell).replace('|', "\\|") };

impl Table {
    /// The lines of the Markdown table alone.
    pub fn to_markdown(&self) -> Vec<String> {
        let mut lines = self.lines(&MARKDOWN);
        let rule = self.columns.iter().map(|column| if column.number { "| ---: " } else { "| --- " });
        lines.insert(1, format!("{}|", rule.collect::<String>()));
        lines
    }

    /// The heading, then the rows.
    fn lines(&self, form: &Form) -> Vec<String> {
        let heads = Row::from(self.columns.iter().map(|column| column.head.clone()).collect::<Vec<_>>());
        let rows: Vec<Row> = std::iter::once(&heads).chain(&self.rows).map(|row| row.in_form(form)).collect();
        let width = |at: usize| rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| width(at).unwrap_or(0)).collect();
        rows.iter().map(|row| self.line(row, &widths, form)).collect()
    }

    fn line(&self, row: &Row, widths: &[usize], form: &Form) -> String {
        let columns = row.cells.iter().zip(widths).zip(&self.columns);
        let mut cells: Vec<String> = columns.map(|((cell, width), column)| padded(cell, *width, column)).collect();
        cells.extend(row.remark.clone());
        format!("{}{}{}", form.before, cells.join(form.between), form.after).trim_end().to_owned()
    }
}

impl Row {
    fn in_form(&self, form: &Form) -> Self {
        let cells = self.cells.iter().map(|cell| (form.cell)(cell)).collect();
        Self { cells, remark: self.remark.as_deref().map(form.cell) }
    }
}

fn padded(cell: &str, width: usize, column: &Column) -> String {
    if column.number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
}

/// Text without line breaks and other control characters, which would tear a table apart.
fn one_line(cell: &str) -> String {
    cell.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let columns = vec![Column::text("a"), Column::number("number"), Column::number("n")];
        let row = |cells: [&str; 3]| Row::from(cells.map(str::to_owned).to_vec());
        let broken = Row { cells: vec!["gone".to_owned()], remark: Some("BROKEN: one|two\nlines".to_owned()) };
        let rows = vec![row(["é", "1", "2"]), row(["long", "22", ""]), broken];
        let table = Table { title: "title".to_owned(), columns, rows, notes: "note".to_owned() };
        Report { facts: vec!["fact".to_owned()], tables: vec![table] }
    }

    #[test]
    fn numbers_are_aligned_to_the_right_and_a_remark_goes_on_to_the_end() {
        let table = "  a     number  n\n  é          1  2\n  long      22\n  gone  BROKEN: one|two lines";
        assert_eq!(report().to_text(), format!("fact\n\ntitle\n\n{table}\n\nnote"));
    }

    #[test]
    fn markdown_says_how_columns_are_aligned_and_escapes_what_would_end_a_cell() {
        let rows = "| é    |      1 | 2 |\n| long |     22 |   |\n| gone | BROKEN: one\\|two lines |";
        let table = format!("| a    | number | n |\n| --- | ---: | ---: |\n{rows}");
        assert_eq!(report().to_markdown(), format!("- fact\n\n### title\n\n{table}\n\nnote\n"));
    }
}
