//! Summary of a benchmark's rounds: a line for each workload, number of clients and target. Pure:
//! the same runs give the same lines. How lines are shown is not here.

mod figures;
mod kinds;
#[cfg(test)]
mod tests;

pub use self::{figures::Figures, kinds::KindFigures};
use super::result::{BenchResult, RunResult};

/// The targets that others are compared with, where they were measured too.
pub const BASELINES: [&str; 2] = ["plain", "native"];

/// All lines, workload by workload, within it in the order in which settings and targets were first
/// measured.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Lines of the summary, one for each target in each setting.
    pub lines: Vec<Line>,
}

/// A setting: runs that share it can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Title of the workload that ran.
    pub workload: String,
    /// Clients at the same time.
    pub clients: u32,
    /// Number of client processes that shared the clients.
    pub processes: u32,
    /// Transactions a second that the option demands; `None` in a closed loop.
    pub asked_rate: Option<f64>,
}

/// Figures of one target in one setting, over all rounds.
#[derive(Clone, Debug)]
pub struct Line {
    /// Setting that the summarised runs share.
    pub setting: Setting,
    /// Name of the target that was measured.
    pub target: String,
    /// Number of rounds that were run.
    pub rounds: usize,
    /// The figures; or, when the data was broken after any of the rounds, the reason, with the
    /// number of such rounds.
    pub outcome: Result<Figures, String>,
}

impl Summary {
    /// The summary of all runs of a result.
    pub fn of(result: &BenchResult) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        for (setting, targets) in by_setting(&result.runs) {
            let from = lines.len();
            lines.extend(targets.iter().map(|(target, runs)| Line::of(&setting, target, runs)));
            compare(&mut lines[from..]);
        }
        Self { lines }
    }

    /// The titles of the workloads, in order.
    pub fn workloads(&self) -> Vec<&str> {
        distinct(self.lines.iter().map(|line| line.setting.workload.as_str()))
    }

    /// The names of the targets, in order.
    pub fn targets(&self) -> Vec<&str> {
        distinct(self.lines.iter().map(|line| line.target.as_str()))
    }

    /// The lines of one workload.
    pub fn of_workload<'a>(&'a self, workload: &'a str) -> impl Iterator<Item = &'a Line> + Clone {
        self.lines.iter().filter(move |line| line.setting.workload == workload)
    }

    /// The lines that have no figures, with the reason.
    pub fn broken(&self) -> impl Iterator<Item = (&Line, &str)> {
        self.lines.iter().filter_map(|line| Some((line, line.outcome.as_ref().err()?.as_str())))
    }
}

impl Setting {
    /// The setting of one run.
    pub fn of(run: &RunResult) -> Self {
        let (clients, processes) = (run.clients, run.processes);
        Self { workload: run.workload.clone(), clients, processes, asked_rate: run.rate }
    }
}

impl Line {
    fn of(setting: &Setting, target: &str, runs: &[&RunResult]) -> Self {
        let outcome = match broken(runs) {
            Some(reason) => Err(reason),
            None => Figures::of(runs).ok_or_else(|| "no runs".to_owned()),
        };
        Self { setting: setting.clone(), target: target.to_owned(), rounds: runs.len(), outcome }
    }

    /// The figures, unless the line is broken.
    pub fn figures(&self) -> Option<&Figures> {
        self.outcome.as_ref().ok()
    }
}

/// Values without those that came before.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

type Targets<'a> = Vec<(&'a str, Vec<&'a RunResult>)>;

/// The runs of each target in each setting, the settings of one workload next to each other.
fn by_setting(runs: &[RunResult]) -> Vec<(Setting, Targets<'_>)> {
    let workloads = distinct(runs.iter().map(|run| run.workload.as_str()));
    let mut settings = distinct(runs.iter().map(Setting::of));
    settings.sort_by_key(|setting| workloads.iter().position(|workload| *workload == setting.workload));
    let targets_in = |setting: &Setting| {
        let here: Vec<&RunResult> = runs.iter().filter(|run| Setting::of(run) == *setting).collect();
        let names = distinct(here.iter().map(|run| run.target.as_str()));
        let of = |name: &str| here.iter().copied().filter(|run| run.target == name).collect();
        names.into_iter().map(|name| (name, of(name))).collect()
    };
    settings.into_iter().map(|setting| (setting.clone(), targets_in(&setting))).collect()
}

/// Reason why these rounds have no figures.
fn broken(runs: &[&RunResult]) -> Option<String> {
    let reasons: Vec<&str> = runs.iter().filter_map(|run| run.broken.as_deref()).collect();
    let first = reasons.first()?;
    Some(match (reasons.len(), runs.len()) {
        (_, 1) => (*first).to_owned(),
        (broken, rounds) => format!("in {broken} of {rounds} rounds: {first}"),
    })
}

/// Returns true if the name is the target itself, or the target at one of several levels.
fn is_at_some_level(name: &str, target: &str) -> bool {
    name.strip_prefix(target).is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
}

/// Notes in each line how it compares with the baselines of the same setting.
fn compare(lines: &mut [Line]) {
    for baseline in BASELINES {
        let of = lines.iter().find(|line| is_at_some_level(&line.target, baseline)).and_then(Line::figures);
        let Some(base) = of.map(|figures| figures.rate.median).filter(|rate| *rate > 0.0) else { continue };
        for figures in lines.iter_mut().filter_map(|line| line.outcome.as_mut().ok()) {
            figures.against.insert(baseline, figures.rate.median / base);
        }
    }
}
