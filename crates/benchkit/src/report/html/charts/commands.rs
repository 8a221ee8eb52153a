//! Commands by kind, stacked: for each operation, for each transaction (paper 000, figures 11 and
//! 14).

use super::{by_setting, heading, short};
use crate::report::{
    html::chart::{Bar, Figure, Part, Plot, View},
    summary::{Figures, Line, distinct},
};

/// Kinds of commands with a colour of their own, the same in every chart. All other kinds are added
/// up.
const COLOURED: [&str; 8] =
    ["commitTransaction", "find", "aggregate", "update", "insert", "findAndModify", "delete", "getMore"];
const OTHERS: &str = "others";

/// The figure of these lines, of one workload.
pub fn figure(lines: &[&Line]) -> Figure {
    let mut views = Vec::new();
    if lines.iter().filter_map(|line| line.figures()).any(|figures| figures.per_operation(1.0).is_some()) {
        let per_operation = |figures: &Figures, n| figures.per_operation(n).unwrap_or_default();
        views.push(View {
            label: "per operation".to_owned(),
            plot: plot(lines, "commands per operation", per_operation),
        });
    }
    let per_tx = |_: &Figures, n| n;
    views.push(View { label: "per transaction".to_owned(), plot: plot(lines, "commands per transaction", per_tx) });
    let sends = |line: &&Line| line.figures().is_some_and(|figures| !figures.commands_per_tx.is_empty());
    let about = "Everything that was sent, attempts that failed and work after the answer included, divided by what was committed.";
    let views = if lines.iter().any(sends) { views } else { Vec::new() };
    Figure { title: "Commands".to_owned(), about: about.to_owned(), views }
}

fn plot(lines: &[&Line], label: &str, per: fn(&Figures, f64) -> f64) -> Plot {
    let (parts, heading) = (parts(lines), heading(lines));
    let bar = |line: &Line| {
        let value = |part: &Part| line.figures().map_or(0.0, |figures| short(per(figures, sent(figures, &part.name))));
        Bar {
            target: line.target.clone(),
            group: heading(line),
            values: parts.iter().map(value).collect(),
            note: String::new(),
            broken: line.outcome.as_ref().err().cloned(),
        }
    };
    let bars = by_setting(lines).iter().flat_map(|(_, lines)| lines.iter().map(|line| bar(line))).collect();
    Plot::Bars { label: label.to_owned(), parts, bars }
}

fn sent(figures: &Figures, part: &str) -> f64 {
    let is_part = |name: &str| if part == OTHERS { !COLOURED.contains(&name) } else { name == part };
    figures.commands_per_tx.iter().filter(|(name, _)| is_part(name)).map(|(_, count)| count).sum()
}

fn parts(lines: &[&Line]) -> Vec<Part> {
    let figures = lines.iter().filter_map(|line| line.figures());
    let names = distinct(figures.flat_map(|figures| figures.commands_per_tx.keys()));
    let of = |(colour, name): (u8, &str)| Part { name: name.to_owned(), colour: Some(colour) };
    let known = (0..).zip(COLOURED).filter(|(_, known)| names.iter().any(|name| name == known)).map(of);
    let others = names.iter().any(|name| !COLOURED.contains(&name.as_str())).then(|| of((8, OTHERS)));
    known.chain(others).collect()
}
