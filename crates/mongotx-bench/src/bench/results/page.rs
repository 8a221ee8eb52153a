//! The page of results: its template, filled with the content of the sections' files. Pure.

use benchkit::report::table::Table;

use super::{
    chart::Chart,
    measurement::{Measurement, Section},
    stored::{MeasuredCommand, StoredSection},
    summary::summary,
};

/// The page without figures. `{{id}}` on a line of its own stands for a section, `{{conditions}}`
/// for what all have in common, `{{summary}}` for the ratios of all of them.
pub(super) const TEMPLATE: &str = include_str!("page.md.in");
/// Columns of a line of prose.
const COLUMNS: usize = 100;
/// Beginnings of facts that the page states in its own words.
const SAID_ELSEWHERE: [&str; 2] = ["Measured: ", "Medians of "];
/// Beginning of a fact that is a section's own.
const WORK: &str = "Work: ";

/// The sections, those that were measured and those that were not.
pub(super) struct Page<'a> {
    pub(super) sections: Vec<(&'a Section, Option<StoredSection>)>,
}

impl Page<'_> {
    /// Returns true if no section lacks a measurement.
    pub(super) fn is_complete(&self) -> bool {
        let is_there = |stored: &StoredSection| stored.measured.iter().all(|measured| measured.missing.is_empty());
        self.sections.iter().all(|(_, stored)| stored.as_ref().is_some_and(is_there))
    }

    /// The template with each section's tables and charts in its place.
    pub(super) fn fill(&self, template: &str) -> String {
        let common = self.common_facts();
        let mut lines = Vec::new();
        for line in template.lines() {
            match line.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
                Some("conditions") => lines.extend(self.conditions(&common)),
                Some("summary") => lines.extend(self.summary()),
                Some(id) => lines.extend(self.section(id, &common)),
                None => lines.push(line.to_owned()),
            }
        }
        lines.join("\n") + "\n"
    }

    fn stored(&self) -> impl Iterator<Item = &StoredSection> {
        self.sections.iter().filter_map(|(_, stored)| stored.as_ref())
    }

    /// Facts of more than one section, which are stated once for all.
    fn common_facts(&self) -> Vec<String> {
        let mut common = Vec::new();
        let facts =
            |stored: &StoredSection| distinct(stored.measured.iter().flat_map(|measured| measured.facts.clone()));
        let all: Vec<String> = self.stored().flat_map(facts).collect();
        for fact in distinct(all.clone()) {
            let is_own = fact.starts_with(WORK) || is_said_elsewhere(&fact);
            if !is_own && all.iter().filter(|other| **other == fact).count() > 1 {
                common.push(fact);
            }
        }
        common
    }

    /// The ratios to MongoDB's own transactions, of every workload that is drawn beside them.
    fn summary(&self) -> Vec<String> {
        let mut drawn = Vec::new();
        for (section, stored) in &self.sections {
            let measured = stored.iter().flat_map(|stored| &stored.measured);
            for (measurement, measured) in section.measurements.iter().zip(measured) {
                for table in &measured.tables {
                    drawn.extend(charts_of(measurement, table).map(|chart| (chart, table)));
                }
            }
        }
        summary(drawn).map_or_else(|| wrapped("Nothing is measured yet.", "", ""), |table| table.to_markdown())
    }

    /// The days, the build and the conditions of the measurements.
    fn conditions(&self, common: &[String]) -> Vec<String> {
        let days = distinct(self.stored().map(|stored| stored.date.clone())).join(" and ");
        let mut lines = match days.as_str() {
            "" => wrapped("Nothing is measured yet.", "", ""),
            _ => wrapped(&format!("Measured on {days}{}.", self.code()), "", ""),
        };
        if self.stored().any(|stored| !stored.is_release) {
            lines.push(String::new());
            lines.extend(wrapped("**A debug build: these figures say nothing about anything.**", "", ""));
        }
        lines.push(String::new());
        lines.extend(common.iter().flat_map(|fact| wrapped(fact, "- ", "  ")));
        lines
    }

    /// The commits of the code that was measured, as far as they are known.
    fn code(&self) -> String {
        let commits = distinct(self.stored().filter_map(|stored| Some(format!("`{}`", stored.commit.as_ref()?))));
        match commits.len() {
            0 => String::new(),
            1 => format!(", at commit {}", commits[0]),
            _ => format!(", at commits {}", commits.join(" and ")),
        }
    }

    fn section(&self, id: &str, common: &[String]) -> Vec<String> {
        let Some((section, stored)) = self.sections.iter().find(|(section, _)| section.id == id) else {
            return vec![format!("There is no section {id}.")];
        };
        let Some(stored) = stored else {
            return wrapped(&format!("**Not measured** (`mongotx-bench results --only {id}`)."), "", "");
        };
        let mut parts = Vec::new();
        if distinct(self.stored().map(|stored| stored.date.clone())).len() > 1 {
            parts.push(wrapped(&format!("Measured on {}.", stored.date), "", ""));
        }
        let together = section.measurements.iter().zip(&stored.measured);
        parts.extend(together.flat_map(|(measurement, measured)| measured_parts(measurement, measured, common)));
        parts.join(&String::new())
    }
}

/// The parts of one command's results, between which there is a blank line.
fn measured_parts(measurement: &Measurement, measured: &MeasuredCommand, common: &[String]) -> Vec<Vec<String>> {
    let rounds = match measured.rounds {
        _ if measured.tables.is_empty() => String::new(),
        0 => String::new(),
        1 => format!(": one round of {} s", measured.seconds),
        rounds => format!(": medians of {rounds} rounds of {} s", measured.seconds),
    };
    let mut parts = vec![wrapped(&format!("`{}`{rounds}", measured.command), "", "")];
    let facts = measured.facts.iter().filter(|fact| !common.contains(fact) && !is_said_elsewhere(fact));
    parts.push(facts.flat_map(|fact| wrapped(fact, "- ", "  ")).collect());
    let missing = measured.missing.iter().map(|what| format!("**Not measured:** {what}"));
    parts.extend(missing.map(|what| wrapped(&what, "", "")));
    let titled = measured.tables.len() > 1;
    for table in &measured.tables {
        parts.extend(table_parts(measurement, table, titled));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn table_parts(measurement: &Measurement, table: &Table, titled: bool) -> Vec<Vec<String>> {
    let has_title = !table.title.is_empty() && (titled || table.title.starts_with('('));
    let mut parts = Vec::new();
    if has_title {
        parts.push(vec![format!("### {}", table.title)]);
    }
    parts.push(table.to_markdown());
    parts.extend(charts_of(measurement, table).filter_map(|chart| chart.lines(table)).map(Vec::from));
    parts.push(wrapped(&table.notes, "", ""));
    parts
}

/// The charts of one table.
fn charts_of<'a>(measurement: &'a Measurement, table: &'a Table) -> impl Iterator<Item = &'a Chart> {
    measurement.charts.iter().filter(|chart| chart.table.is_empty() || chart.table == table.title)
}

fn is_said_elsewhere(fact: &str) -> bool {
    SAID_ELSEWHERE.iter().any(|begin| fact.starts_with(begin))
}

fn distinct(values: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// A paragraph in lines of at most [`COLUMNS`]; no line for nothing. What stands between backticks
/// is one word, as for `.ci/columns`.
fn wrapped(text: &str, first: &str, rest: &str) -> Vec<String> {
    let (mut lines, mut line, mut margin) = (Vec::new(), String::new(), first);
    for word in words(text) {
        let length = margin.chars().count() + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && length > COLUMNS {
            lines.push(format!("{margin}{line}"));
            (line, margin) = (word, rest);
        } else {
            line = if line.is_empty() { word } else { format!("{line} {word}") };
        }
    }
    if !line.is_empty() {
        lines.push(format!("{margin}{line}"));
    }
    lines
}

fn words(text: &str) -> Vec<String> {
    let (mut words, mut is_code): (Vec<String>, bool) = (Vec::new(), false);
    for part in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if is_code => *last = format!("{last} {part}"),
            _ => words.push(part.to_owned()),
        }
        is_code ^= part.matches('`').count() % 2 == 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use benchkit::report::table::{Column, Row};

    use super::{super::plan::SECTIONS, *};

    /// A table of two targets with one client.
    fn table(title: &str, targets: &[&str]) -> Table {
        let columns =
            vec![Column::text("target"), Column::number("clients"), Column::number("tx/s"), Column::number("x native")];
        let row = |target: &&str| Row::from([target, "1", "70.0", "1.10"].map(str::to_owned).to_vec());
        Table { title: title.to_owned(), columns, rows: targets.iter().map(row).collect(), notes: String::new() }
    }

    fn measured(facts: &[&str], tables: Vec<Table>) -> StoredSection {
        let facts = facts.iter().map(|fact| (*fact).to_owned()).collect();
        let command = "mongotx-bench transfer --clients 1".to_owned();
        StoredSection::today(vec![MeasuredCommand {
            command,
            rounds: 3,
            seconds: 2,
            facts,
            tables,
            missing: Vec::new(),
        }])
    }

    fn section(id: &str) -> &'static Section {
        SECTIONS.iter().find(|section| section.id == id).unwrap()
    }

    #[test]
    fn every_section_has_one_place_on_the_page() {
        let places: Vec<&str> =
            TEMPLATE.lines().filter_map(|line| line.strip_prefix("{{")?.strip_suffix("}}")).collect();
        for section in SECTIONS {
            assert_eq!(places.iter().filter(|place| **place == section.id).count(), 1, "{}", section.id);
        }
        assert_eq!(places.len(), SECTIONS.len() + 2, "{places:?}");
    }

    #[test]
    fn a_section_has_its_command_its_facts_its_table_and_its_chart() {
        let stored = measured(&["Work: transfers.", "Measured: 2 s."], vec![table("", &["native", "mongotx"])]);
        let page = Page { sections: vec![(section("transfers"), Some(stored))] };
        let filled = page.fill("# Results\n\n{{transfers}}\n\nThe end.");
        let expected = [
            "# Results",
            "",
            "`mongotx-bench transfer --clients 1`: medians of 3 rounds of 2 s",
            "",
            "- Work: transfers.",
            "",
            "| target  | clients | tx/s | x native |",
            "| --- | ---: | ---: | ---: |",
            "| native  |       1 | 70.0 |     1.10 |",
            "| mongotx |       1 | 70.0 |     1.10 |",
            "",
            "<!-- chart transfer; bars: target; groups: clients; value: tx/s; ratio: x native; axis: transactions per \
             second (× native); label: {} clients -->",
            "![Transfers: transactions per second, by clients](charts/transfer.svg)",
            "",
            "The end.",
            "",
        ];
        assert_eq!(filled, expected.join("\n"));
        assert!(page.is_complete());
    }

    #[test]
    fn what_several_sections_say_is_said_once() {
        let one = measured(&["Machine: one.", "Work: transfers."], vec![]);
        let other = measured(&["Machine: one.", "Work: check-ins."], vec![]);
        let page = Page { sections: vec![(section("transfers"), Some(one)), (section("checkin"), Some(other))] };
        let filled = page.fill("{{conditions}}\n{{transfers}}\n{{checkin}}");
        assert_eq!(filled.matches("- Machine: one.").count(), 1, "{filled}");
        assert!(filled.contains("- Work: transfers.") && filled.contains("- Work: check-ins."), "{filled}");
        assert!(filled.contains("**A debug build"), "tests are one: {filled}");
    }

    #[test]
    fn commits_are_named_with_the_days() {
        let mut one = measured(&[], vec![]);
        one.date = "2026-11-29".to_owned();
        let mut other = one.clone();
        (one.commit, other.commit) = (Some("5a9a001b4c3d".to_owned()), None);
        let page = |one: &StoredSection, other: &StoredSection| {
            let sections = [(section("transfers"), one), (section("checkin"), other)];
            let sections = sections.map(|(section, stored)| (section, Some(stored.clone()))).to_vec();
            Page { sections }.fill("{{conditions}}")
        };
        assert!(page(&other, &other).starts_with("Measured on 2026-11-29.\n"));
        assert!(page(&one, &other).starts_with("Measured on 2026-11-29, at commit `5a9a001b4c3d`.\n"));
        other.commit = Some("0123456789ab-dirty".to_owned());
        let both = "Measured on 2026-11-29, at commits `5a9a001b4c3d` and `0123456789ab-dirty`.\n";
        assert!(page(&one, &other).starts_with(both));
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut stored = measured(&[], vec![]);
        stored.measured[0].missing.push("redis: there is none".to_owned());
        let page = Page { sections: vec![(section("dtranx-rivals"), Some(stored)), (section("bank"), None)] };
        let filled = page.fill("{{dtranx-rivals}}\n{{bank}}");
        assert!(filled.contains("**Not measured:** redis: there is none"), "{filled}");
        assert!(filled.contains("**Not measured** (`mongotx-bench results --only bank`)."), "{filled}");
        assert!(!page.is_complete());
    }

    #[test]
    fn charts_say_nothing_of_a_rival_that_is_not_there() {
        let rivals = section("dtranx-rivals").measurements[0].charts[0];
        let mut found = table("", &["dtranx", "etcd"]);
        found.columns[0].head = String::new();
        found.columns[1].head = "in flight".to_owned();
        found.columns[3].head = "servers".to_owned();
        found.rows.iter_mut().for_each(|row| "1".clone_into(&mut row.cells[3]));
        assert!(rivals.lines(&found).unwrap()[0].contains("; of: etcd;"));
        found.rows.pop();
        assert!(!rivals.lines(&found).unwrap()[0].contains("of: "));
        found.rows.clear();
        assert_eq!(rivals.lines(&found), None, "nothing to draw");
    }

    #[test]
    fn the_page_of_the_repository_is_made_of_its_files() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let of = |section: &'static Section| (section, StoredSection::read(&docs.join("results"), section.id).unwrap());
        let page = Page { sections: SECTIONS.iter().map(of).collect() };
        let is_measured = page.stored().next().is_some();
        let written = std::fs::read_to_string(docs.join("results.md")).ok();
        assert_eq!(written, is_measured.then(|| page.fill(TEMPLATE)), "mongotx-bench results --page-only makes it");
    }

    #[test]
    fn prose_keeps_to_its_columns_and_code_is_one_word() {
        let text = format!("{} `{} {}` {}", "word ".repeat(17).trim(), "a".repeat(8), "b".repeat(8), "c".repeat(120));
        let lines = wrapped(&text, "- ", "  ");
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("- word") && lines[0].chars().count() <= COLUMNS, "{lines:?}");
        assert_eq!(lines[1], "  `aaaaaaaa bbbbbbbb`");
    }
}
