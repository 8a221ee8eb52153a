//! A page: sections of prose, charts and tables, in one file that needs nothing else.
//!
//! Text is escaped by the template; the data for the script stands in it as JSON in which no `<` is
//! left. The page forbids the browser to load anything.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use super::{
    chart::Figure,
    colours::{self, Coloured},
};
use crate::report::table::{Column, Row, Table};

const STYLE: &str = include_str!("page/style.css");
const SCRIPTS: [&str; 5] = [
    include_str!("page/scale.js"),
    include_str!("page/draw.js"),
    include_str!("page/lines.js"),
    include_str!("page/bars.js"),
    include_str!("page/page.js"),
];
/// Content security policy: nothing is loaded; only scripts and styles in the page count.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// A page with the results of one or several benchmarks, in sections.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Title of the page, also of its window.
    pub title: String,
    /// Command that repeats the run.
    pub command: String,
    /// Conditions of the measurement, a line each: machine, servers, durability.
    pub facts: Vec<String>,
    /// The targets, in the order in which they are listed.
    pub targets: Vec<String>,
    /// Sections of the page, in the order in which they are shown.
    pub sections: Vec<Section>,
}

/// A section of a page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Heading of the section on the page.
    pub heading: String,
    /// Paragraphs before tables and charts.
    pub prose: Vec<String>,
    /// Notes on the way of measuring, a line each.
    pub notes: Vec<String>,
    /// Runs that have no figures, with the reason.
    pub broken: Vec<String>,
    /// Charts of the section, above its tables.
    pub figures: Vec<Figure>,
    /// The tables; the first is open.
    pub tables: Vec<Table>,
}

/// Data for the page's script.
#[derive(Serialize)]
struct Data<'a> {
    targets: &'a [Coloured],
    figures: Vec<&'a Figure>,
}

impl Page {
    /// The page as an HTML file.
    pub fn to_html(&self) -> String {
        let targets: Vec<&str> = self.targets.iter().map(String::as_str).collect();
        let targets = colours::assign(&targets);
        let figures: Vec<&Figure> = self.sections.iter().flat_map(|section| &section.figures).collect();
        let mut number = 0;
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    (self.head())
                    (switches(&targets))
                    @for section in &self.sections { (section.to_html(&mut number)) }
                    div #tip role="status" hidden {}
                    script #data type="application/json" { (PreEscaped(json(&Data { targets: &targets, figures }))) }
                    @for script in SCRIPTS { script { (PreEscaped(script)) } }
                }
            }
        }
        .into_string()
    }

    fn head(&self) -> Markup {
        html! {
            h1 { (self.title) }
            pre { (self.command) }
            ul.facts { @for fact in &self.facts { li { (fact) } } }
        }
    }
}

/// Buttons that switch targets on and off.
fn switches(targets: &[Coloured]) -> Markup {
    html! {
        fieldset #targets {
            legend { "Targets" }
            @for target in targets {
                label { input type="checkbox" value=(target.name) checked; svg aria-hidden="true" {} (target.name) }
            }
            // The script reads the namespace of SVG from it.
            @if targets.is_empty() { svg aria-hidden="true" {} }
        }
    }
}

impl Section {
    fn to_html(&self, number: &mut usize) -> Markup {
        html! {
            section {
                h2 { (self.heading) }
                @if !self.prose.is_empty() { div.finding { @for text in &self.prose { p { (text) } } } }
                @if !self.broken.is_empty() {
                    div.broken role="note" {
                        p { strong { "Broken: no figures" } }
                        ul { @for text in &self.broken { li { (text) } } }
                    }
                }
                div.charts { @for figure in &self.figures { (figure_html(figure, number)) } }
                @if !self.notes.is_empty() {
                    details { summary { "How it was measured" } ul.facts { @for note in &self.notes { li { (note) } } } }
                }
                @for (at, table) in self.tables.iter().enumerate() { (table_html(table, at == 0)) }
            }
        }
    }
}

fn figure_html(figure: &Figure, number: &mut usize) -> Markup {
    let own = *number;
    *number += 1;
    html! {
        figure data-figure=(own) {
            figcaption {
                h3 { (figure.title) }
                @if figure.views.len() > 1 {
                    select aria-label={ "View of: " (figure.title) } autocomplete="off" {
                        @for view in &figure.views { option { (view.label) } }
                    }
                }
            }
            p { (figure.about) }
            div.plot {}
        }
    }
}

fn table_html(table: &Table, open: bool) -> Markup {
    html! {
        details open[open] {
            summary { (table.title) }
            div.table tabindex="0" {
                table {
                    thead { tr { @for column in &table.columns { th.number[column.number] scope="col" { (column.head) } } } }
                    tbody { @for row in &table.rows { (row_html(row, &table.columns)) } }
                }
            }
            p.notes { (table.notes) }
        }
    }
}

fn row_html(row: &Row, columns: &[Column]) -> Markup {
    let rest = columns.len().saturating_sub(row.cells.len());
    html! {
        tr {
            @for (cell, column) in row.cells.iter().zip(columns) { td.number[column.number] { (cell) } }
            @if let Some(remark) = &row.remark { td.remark colspan=(rest) { "✕ " (remark) } }
        }
    }
}

/// JSON that cannot end the element it stands in.
fn json(data: &Data<'_>) -> String {
    // Only numbers and texts: writing them cannot fail.
    serde_json::to_string(data).unwrap_or_else(|error| unreachable!("{error}")).replace('<', "\\u003c")
}
