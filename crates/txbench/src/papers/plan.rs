//! The measurements that the figures need, each once: a workload, with all targets and numbers of
//! clients that any figure wants of it.

use clap::Parser;

use super::{
    PapersArgs,
    figures::{PaperFigure, Work},
};
use crate::{
    error::BenchError,
    run::RunArgs,
    targets::registry::{TARGETS, TargetName},
    workload::registry::{WorkloadCommand, WorkloadSpec},
};

/// A measurement that a plan consists of.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Work that is measured: a workload with its options.
    pub work: Work,
    /// The workload; or the reason why it cannot be measured.
    pub spec: Result<WorkloadSpec, String>,
    /// Targets that can do the work.
    pub targets: Vec<TargetName>,
    /// Numbers of clients, one run each.
    pub clients: Vec<u32>,
}

/// The arguments of a workload, without the program.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct CommandLine {
    #[command(subcommand)]
    command: WorkloadCommand<RunArgs>,
}

/// The measurements of these figures, in the order in which they are first needed.
///
/// # Errors
/// [`BenchError::Refused`] for options that a workload refuses.
pub fn of(figures: &[PaperFigure], args: &PapersArgs) -> Result<Vec<Measurement>, BenchError> {
    let mut wanted: Vec<(Work, Vec<&str>, Vec<u32>)> = Vec::new();
    for figure in figures {
        for work in figure.works {
            let at = wanted.iter().position(|(known, ..)| known == work).unwrap_or(wanted.len());
            if at == wanted.len() {
                wanted.push((*work, Vec::new(), Vec::new()));
            }
            add(&mut wanted[at].1, figure.targets);
            add(&mut wanted[at].2, figure.clients);
        }
    }
    wanted.into_iter().map(|(work, targets, clients)| Measurement::new(work, &targets, clients, args)).collect()
}

fn add<T: PartialEq + Copy>(to: &mut Vec<T>, values: &[T]) {
    for value in values {
        if !to.contains(value) {
            to.push(*value);
        }
    }
}

impl Measurement {
    fn new(work: Work, targets: &[&str], mut clients: Vec<u32>, args: &PapersArgs) -> Result<Self, BenchError> {
        clients.sort_unstable();
        let spec = parse(&work.words(args)).map(|(spec, _)| spec);
        let needs = match &spec {
            Ok(spec) => spec.make()?.needs(),
            Err(_) => Vec::new(),
        };
        let able = |name: &&&str| {
            let traits = TARGETS.iter().map(|entry| &entry.traits).find(|traits| traits.name == **name);
            traits.is_some_and(|traits| needs.iter().all(|need| traits.features.contains(need)))
        };
        let targets = targets.iter().filter(able).filter_map(|name| name.parse().ok()).collect();
        Ok(Self { work, spec, targets, clients })
    }

    /// Number of single runs in one round of the measurement.
    pub fn runs(&self) -> usize {
        if self.spec.is_ok() { self.targets.len() * self.clients.len() } else { 0 }
    }

    /// The command that repeats it, in so many rounds of so many seconds.
    pub fn command(&self, args: &PapersArgs, rounds: u32, seconds: u64) -> String {
        let words = self.words(args, rounds, seconds);
        let quoted = words.iter().map(|word| if word.contains(' ') { format!("'{word}'") } else { word.clone() });
        format!("mongotx-bench {}", quoted.collect::<Vec<_>>().join(" "))
    }

    /// The options of `mongotx-bench` that repeat the runs of this figure.
    ///
    /// # Errors
    /// [`BenchError::Refused`], in the words of the command line.
    pub fn run_args(&self, args: &PapersArgs, rounds: u32, seconds: u64) -> Result<RunArgs, BenchError> {
        parse(&self.words(args, rounds, seconds)).map(|(_, run)| run).map_err(BenchError::Refused)
    }

    fn words(&self, args: &PapersArgs, rounds: u32, seconds: u64) -> Vec<String> {
        let list = |values: Vec<String>| values.join(",");
        let targets = list(self.targets.iter().map(|name| name.as_str().to_owned()).collect());
        let clients = list(self.clients.iter().map(u32::to_string).collect());
        let mut words = self.work.words(args);
        let options = [
            ("--targets", targets),
            ("--clients", clients),
            ("--rounds", rounds.to_string()),
            ("--seconds", seconds.to_string()),
            ("--warm-up", super::budget::WARM_UP.as_secs().to_string()),
            ("--write-concern", "1".to_owned()),
            ("--journal", "true".to_owned()),
            ("--seed", args.seed.to_string()),
        ];
        words.extend(options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]));
        words.extend(args.uri.iter().flat_map(|uri| ["--uri".to_owned(), uri.clone()]));
        words
    }
}

impl Work {
    /// The workload's own arguments.
    fn words(&self, args: &PapersArgs) -> Vec<String> {
        let mut words: Vec<String> = self.command.split_whitespace().map(str::to_owned).collect();
        if words.first().is_some_and(|workload| workload == "ycsb") {
            words.extend(["--records".to_owned(), args.records.to_string()]);
        }
        words
    }
}

fn parse(words: &[String]) -> Result<(WorkloadSpec, RunArgs), String> {
    CommandLine::try_parse_from(words).map(|line| line.command.split()).map_err(|error| error.to_string())
}
