//! The options of `mongotx-bench papers`, and the figures that they choose. Which figures there are
//! is in `plan`.

use std::{num::NonZeroU64, path::PathBuf};

use clap::Args;

use super::figures::PaperFigure;
use crate::error::BenchError;

/// The arguments of `mongotx-bench papers`.
#[derive(Clone, Debug, Args)]
pub struct PapersArgs {
    /// Directory that the page, the tables in Markdown and every result are written into
    #[arg(long, default_value = "papers")]
    pub out: PathBuf,
    /// Time for all measurements together, in minutes, as far as it can be foreseen; the length of
    /// each follows from it
    #[arg(long, default_value_t = 28.0, value_parser = minutes)]
    pub minutes: f64,
    /// Figures to measure, as in "000-9,001-7" [default: all]
    #[arg(long, value_delimiter = ',', value_name = "FIGURE")]
    pub figures: Vec<String>,
    /// Length of every single measurement, in seconds, one round each [default: as long as
    /// --minutes allows]
    #[arg(long)]
    pub seconds: Option<NonZeroU64>,
    /// Records of YCSB; other than 100000 is not what the papers measured
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub records: u32,
    /// Seed of the work: two runs with the same seed do the same
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A running server that is no replica set; one is started if none is named
    #[arg(long)]
    pub uri: Option<String>,
}

impl PapersArgs {
    /// The figures that the options name.
    ///
    /// # Errors
    /// [`BenchError::Refused`] for a figure that does not exist.
    pub fn chosen(&self, figures: &[PaperFigure]) -> Result<Vec<PaperFigure>, BenchError> {
        if let Some(unknown) = self.figures.iter().find(|id| figures.iter().all(|figure| figure.id != **id)) {
            let known: Vec<&str> = figures.iter().map(|figure| figure.id).collect();
            let known = known.join(", ");
            return Err(BenchError::Refused(format!("--figures: there is no figure {unknown:?}; there are {known}")));
        }
        let is_chosen =
            |figure: &&PaperFigure| self.figures.is_empty() || self.figures.iter().any(|id| id == figure.id);
        Ok(figures.iter().filter(is_chosen).copied().collect())
    }
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.1..=1_440.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number from 0.1 to 1440 is expected".to_owned()),
    }
}
