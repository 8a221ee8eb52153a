//! Charts of the page: the mark from which `docs/draw` draws one of the table above it.

use benchkit::report::table::{Row, Table};

/// A chart of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chart {
    /// Name of the chart's file, without `.svg`.
    pub(super) name: &'static str,
    /// Title of its table; empty: the only one.
    pub(super) table: &'static str,
    /// Text for readers who do not see the picture.
    pub(super) text: &'static str,
    /// Column whose values are compared; empty where `value` names several.
    pub(super) bars: &'static str,
    /// Name of a bar; empty: its value.
    pub(super) name_of_bar: &'static str,
    /// Column whose values the bars are grouped by.
    pub(super) groups: &'static str,
    /// Label of a group; empty: its value.
    pub(super) label: &'static str,
    /// Column of the values, or several.
    pub(super) value: &'static str,
    /// Heading of the axis.
    pub(super) axis: &'static str,
    /// Column of ratios, written behind each bar where the table has it.
    pub(super) ratio: &'static str,
    /// Bar whose ratio to the others is written behind each, where every group has it.
    pub(super) rival: &'static str,
    /// Rows that are drawn; all if none is named.
    pub(super) only: &'static [(&'static str, &'static str)],
}

impl Chart {
    /// A chart of which only the names are known.
    pub(super) const fn of(name: &'static str, table: &'static str, text: &'static str) -> Self {
        Self {
            name,
            table,
            text,
            bars: "",
            name_of_bar: "",
            groups: "",
            label: "",
            value: "",
            axis: "",
            ratio: "",
            rival: "",
            only: &[],
        }
    }

    /// The mark and the line that shows the picture; `None` where the table has nothing to draw.
    pub(super) fn lines(&self, table: &Table) -> Option<[String; 2]> {
        let values: Vec<usize> = self.value.split(", ").map(|head| column(table, head)).collect::<Option<_>>()?;
        let rows: Vec<&Row> = table.rows.iter().filter(|row| self.is_drawn(table, row)).collect();
        let figure = |row: &Row, at: usize| row.cells.get(at).and_then(|cell| number(cell)).unwrap_or(0.0);
        if !rows.iter().any(|row| values.iter().any(|at| figure(row, *at) > 0.0)) {
            return None;
        }
        let has_ratio = !self.ratio.is_empty() && column(table, self.ratio).is_some();
        let only: Vec<String> = self.only.iter().map(|(head, value)| format!("{head}={value}")).collect();
        let rival = if self.has_rival(table, &rows) { self.rival } else { "" };
        let axis = match self.ratio.strip_prefix("x ").filter(|_| has_ratio) {
            Some(name) => format!("{} (× {name})", self.axis),
            None => self.axis.to_owned(),
        };
        let keys = [
            ("only", only.join(", ")),
            ("bars", self.bars.to_owned()),
            ("name", self.name_of_bar.to_owned()),
            ("groups", self.groups.to_owned()),
            ("value", self.value.to_owned()),
            ("of", rival.to_owned()),
            ("ratio", if has_ratio { self.ratio } else { "" }.to_owned()),
            ("axis", axis),
            ("label", self.label.to_owned()),
        ];
        let spec =
            keys.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}: {value}"));
        let spec = spec.collect::<Vec<_>>().join("; ");
        Some([format!("<!-- chart {}; {spec} -->", self.name), format!("![{}](charts/{}.svg)", self.text, self.name)])
    }

    /// The ratios in this column of all drawn rows that are about one bar, with so many clients.
    pub(super) fn ratios(&self, table: &Table, ratio: &str, bar: &str, clients: &str) -> Vec<f64> {
        let has = |row: &Row, head, value| cell(table, row, head) == Some(value);
        let is_about =
            |row: &&Row| self.is_drawn(table, row) && has(row, self.bars, bar) && has(row, "clients", clients);
        let ratios = table.rows.iter().filter(is_about).filter_map(|row| number(cell(table, row, ratio)?));
        if self.ratio == ratio { ratios.collect() } else { Vec::new() }
    }

    fn is_drawn(&self, table: &Table, row: &Row) -> bool {
        self.only.iter().all(|(head, value)| cell(table, row, head) == Some(value))
    }

    /// Returns true if every group has a figure of the rival.
    fn has_rival(&self, table: &Table, rows: &[&Row]) -> bool {
        let is_figure = |text: Option<&str>| text.and_then(number).is_some_and(|figure| figure > 0.0);
        if self.bars.is_empty() {
            return rows.iter().all(|row| is_figure(cell(table, row, self.rival)));
        }
        let is_rival = |row: &&&Row| cell(table, row, self.bars) == Some(self.rival);
        let group = |row: &Row| cell(table, row, self.groups).map(str::to_owned);
        rows.iter().all(|row| {
            let mut there = rows.iter().filter(is_rival).filter(|rival| group(rival) == group(row));
            there.any(|rival| is_figure(cell(table, rival, self.value)))
        })
    }
}

/// The place of a column; one without a heading is `#1`, by its place.
fn column(table: &Table, head: &str) -> Option<usize> {
    let by_place = head.strip_prefix('#').and_then(|place| place.parse::<usize>().ok()?.checked_sub(1));
    by_place.or_else(|| table.columns.iter().position(|column| column.head == head))
}

fn cell<'a>(table: &Table, row: &'a Row, head: &str) -> Option<&'a str> {
    row.cells.get(column(table, head)?).map(String::as_str)
}

/// A figure of a table, as `docs/draw` reads it.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".,+-".contains(c))).unwrap_or(text.len());
    text[..end].replace(',', "").parse().ok()
}
