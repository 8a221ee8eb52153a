//! One measurement of the page of results: a command, its time, and the reading of its result.
//! [`super::plan`] has all of them.

use super::{chart::Chart, pace::Pace};

/// A section of the page, measured as a whole and kept in a file of its own.
#[derive(Debug)]
pub(super) struct Section {
    /// Name of the section on the command line, in the page's template, and of its file.
    pub(super) id: &'static str,
    pub(super) measurements: &'static [Measurement],
}

/// One command to run, and the charts that its tables become.
#[derive(Debug)]
pub(super) struct Measurement {
    /// The command without its lengths.
    pub(super) command: &'static str,
    pub(super) kind: Kind,
    /// True if readers of the page look for its ratios: then it gets more rounds.
    pub(super) is_main: bool,
    pub(super) charts: &'static [Chart],
}

/// The way in which a command is given its lengths, and its result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A workload on several targets; its runs are read from JSON.
    Workload,
    /// The same; kinds of transactions have a table of their own.
    WorkloadApart,
    /// A command that measures for `--seconds` and writes tables: so many stretches of that length.
    Tables { stretches: u32 },
    /// TPC-C's ACID tests, which have no length.
    Acid,
    /// Tables of `dtranx-bench`: so many stretches, in rounds.
    Dtranx { stretches: u32 },
}

impl Section {
    /// Seconds that it takes, as far as can be foreseen.
    pub(super) fn seconds(&self, pace: Pace) -> u64 {
        self.measurements.iter().map(|measurement| measurement.seconds(pace)).sum()
    }
}

/// Seconds between two stretches that are measured: clients start, end and are checked.
const BETWEEN: u64 = 1;
/// Seconds in which a target's data is loaded.
const LOADING: u64 = 4;
/// The warm-up of each stretch.
const WARM_UP: u64 = 1;
/// Seconds of the ACID tests.
const ACID: u64 = 90;

impl Measurement {
    /// Returns true if the command measures in rounds.
    pub(super) fn has_rounds(&self) -> bool {
        !matches!(self.kind, Kind::Tables { .. } | Kind::Acid)
    }

    /// Rounds that it is measured in.
    pub(super) fn rounds(&self, pace: Pace) -> u32 {
        if self.is_main { pace.main_rounds } else { pace.rounds }
    }

    /// The command with its lengths, word by word.
    pub(super) fn words(&self, pace: Pace) -> Vec<String> {
        let mut words: Vec<String> = self.command.split(' ').map(str::to_owned).collect();
        let (seconds, rounds) = (pace.seconds, self.rounds(pace));
        let lengths = match self.kind {
            Kind::Workload | Kind::WorkloadApart | Kind::Dtranx { .. } => {
                format!("--seconds {seconds} --warm-up {WARM_UP} --rounds {rounds}")
            }
            Kind::Tables { .. } => format!("--seconds {}", seconds * u64::from(rounds)),
            Kind::Acid => String::new(),
        };
        words.extend(lengths.split(' ').filter(|word| !word.is_empty()).map(str::to_owned));
        words
    }

    /// The program and its command, as they are typed.
    pub(super) fn command_line(&self, pace: Pace) -> String {
        let program = if matches!(self.kind, Kind::Dtranx { .. }) { "dtranx-bench" } else { "mongotx-bench" };
        format!("{program} {}", self.words(pace).join(" "))
    }

    /// Seconds that it takes, as far as can be foreseen.
    pub(super) fn seconds(&self, pace: Pace) -> u64 {
        let (seconds, rounds) = (pace.seconds, u64::from(self.rounds(pace)));
        match self.kind {
            Kind::Workload | Kind::WorkloadApart => {
                let rows = if self.command.starts_with("bank-table") { BANK_ROWS } else { 1 };
                let contestants = self.count("--targets") * self.count("--isolation");
                let runs = rows * contestants * self.count("--clients");
                runs * rounds * (WARM_UP + seconds + BETWEEN) + rows * contestants * LOADING
            }
            Kind::Tables { stretches } => u64::from(stretches) * seconds * rounds * 3 / 2 + 20,
            Kind::Acid => ACID,
            Kind::Dtranx { stretches } => u64::from(stretches) * rounds * (WARM_UP + seconds) + LOADING,
        }
    }

    /// Number of an option's values in the command; one if it is not there.
    fn count(&self, option: &str) -> u64 {
        let mut words = self.command.split(' ').skip_while(|word| *word != option);
        words.nth(1).map_or(1, |values| values.split(',').count() as u64)
    }
}

/// The rows of `bank-table`.
const BANK_ROWS: u64 = 7;
