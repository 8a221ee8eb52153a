//! Distributions by which a client chooses records: uniform, zipfian, latest. The keys are drawn in
//! `keys`.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Distributions by which records are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Distribution {
    /// A few records are chosen most of the time, and they lie anywhere.
    Zipfian,
    /// All records are equally likely.
    Uniform,
    /// The last ones that came most of the time.
    Latest,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zipfian => "by a zipfian distribution",
            Self::Uniform => "uniformly",
            Self::Latest => "by a zipfian distribution, the latest first",
        })
    }
}
