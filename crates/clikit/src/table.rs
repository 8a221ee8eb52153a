//! Tables of text in aligned columns, without borders, for people, `cut` and `awk`. Those of the
//! benchmarks are in `benchkit`.

use std::fmt;

/// Rows under a heading; each column as wide as its widest cell.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()] }
    }

    /// A table of names and values.
    pub fn without_heading() -> Self {
        Self { rows: Vec::new() }
    }

    /// Adds a row below the others; its cells are those of the columns in order.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (at, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            write!(f, "{}{}", if at == 0 { "" } else { "\n" }, line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
        let mut table = Table::new(["NAME", "N"]);
        table.row(["a longer one".to_owned(), "1".to_owned()]);
        table.row(["é".to_owned(), String::new()]);
        assert_eq!(table.to_string(), "NAME          N\na longer one  1\né");
    }
}
