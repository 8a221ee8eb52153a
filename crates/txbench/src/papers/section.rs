//! A figure of a paper as a section of the page: the paper's finding, the result here, the charts,
//! the tables.

use benchkit::report::{
    html::{self, chart::Figure, charts, page::Section},
    result::{BenchResult, FORMAT, RunResult},
    summary::{Line, Summary, distinct},
    tables,
};

use super::{
    compare,
    figures::{PaperFigure, Shows, Work},
    measure::Measured,
};

/// The section of one figure. Of measurements that it shares with others it shows its own targets
/// and clients.
pub(super) fn of(figure: &PaperFigure, all: &[Measured], common: &[String]) -> Section {
    let measured: Vec<&Measured> = figure.works.iter().filter_map(|work| find(all, work)).collect();
    let summary = Summary::of(&own(figure, &measured));
    let mut prose = vec![format!("The paper: {}", figure.finding), figure.here.to_owned()];
    let baseline = figure.targets.first().copied().unwrap_or_default();
    prose.extend(figure.compared.iter().filter_map(|metric| compare::sentence(&summary, baseline, *metric)));
    prose.extend(missing(figure, &measured));
    let workloads = summary.workloads();
    Section {
        heading: figure.title.to_owned(),
        prose,
        notes: measured.iter().flat_map(|measured| notes(measured, common)).collect(),
        broken: workloads.iter().flat_map(|workload| html::broken(&summary, workload)).collect(),
        figures: figure.shows.iter().flat_map(|shows| drawn(*shows, &summary)).filter(Figure::has_figures).collect(),
        tables: tables::all(&summary),
    }
}

fn find<'a>(all: &'a [Measured], work: &Work) -> Option<&'a Measured> {
    all.iter().find(|measured| measured.measurement.work == *work)
}

/// The runs of this figure, under the names that the paper has for the workloads.
fn own(figure: &PaperFigure, measured: &[&Measured]) -> BenchResult {
    let is_own = |run: &&RunResult| figure.clients.contains(&run.clients) && figure.targets.contains(&&*run.target);
    let runs = measured.iter().flat_map(|measured| {
        let runs = measured.outcome.iter().flat_map(|result| &result.runs).filter(is_own);
        runs.map(|run| RunResult { workload: measured.measurement.work.name.to_owned(), ..run.clone() })
    });
    let runs = runs.collect();
    BenchResult { format: FORMAT, title: figure.title.to_owned(), command: String::new(), facts: Vec::new(), runs }
}

/// Lines about results that should be here and are missing.
fn missing(figure: &PaperFigure, measured: &[&Measured]) -> Vec<String> {
    let mut missing = Vec::new();
    for Measured { measurement, outcome, .. } in measured.iter().copied() {
        let name = measurement.work.name;
        if let Err(reason) = outcome {
            missing.push(format!("Not measured: {name}: {reason}."));
            continue;
        }
        let is_measured = |target: &str| measurement.targets.iter().any(|known| known.as_str() == target);
        let absent: Vec<&str> = figure.targets.iter().copied().filter(|target| !is_measured(target)).collect();
        if !absent.is_empty() {
            missing.push(format!("Not measured: {name} with {}: this version cannot do it.", absent.join(", ")));
        }
    }
    missing
}

/// Command and facts of one measurement, as notes under its figures.
fn notes(measured: &Measured, common: &[String]) -> Vec<String> {
    let Ok(result) = &measured.outcome else { return Vec::new() };
    let own = result.facts.iter().filter(|fact| !common.contains(fact)).map(String::as_str);
    let own = own.collect::<Vec<_>>().join(" ");
    vec![format!("{}: {} {own}", measured.measurement.work.name, measured.command).trim_end().to_owned()]
}

fn drawn(shows: Shows, summary: &Summary) -> Vec<Figure> {
    let all: Vec<&Line> = summary.lines.iter().collect();
    let by_workload = |figure: fn(&[&Line]) -> Figure| {
        let workloads = distinct(all.iter().map(|line| line.setting.workload.as_str()));
        let named = |workload: &str| {
            let lines: Vec<&Line> = summary.of_workload(workload).collect();
            let figure = figure(&lines);
            Figure { title: format!("{workload}: {}", figure.title.to_lowercase()), ..figure }
        };
        workloads.into_iter().map(named).collect()
    };
    match shows {
        Shows::Latency => vec![charts::latency(&all)],
        Shows::Commands => vec![charts::commands(&all)],
        Shows::ThroughputLatency => by_workload(charts::throughput_latency),
        Shows::Scaling => by_workload(charts::scaling),
        Shows::Kinds => by_workload(charts::kinds),
    }
}
