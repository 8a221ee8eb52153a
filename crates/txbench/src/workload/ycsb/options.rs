//! Options of the workload YCSB: mix, distribution, and sizes of records, transactions and scans.

use std::str::FromStr;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{
    Ycsb,
    distribution::Distribution,
    mix::{Core, Mix},
};
use crate::{
    error::BenchError,
    workload::{Workload, WorkloadOptions},
};

/// Options of the workload YCSB.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct YcsbOptions {
    /// The core workload: a update-heavy, b read-mostly, c read-only, d read-latest, e
    /// short-ranges, f read-modify-write
    #[arg(long, value_enum, default_value_t = Core::A)]
    pub core: Core,
    /// Proportions of operations, instead of the core workload's own, as in "read=95,update=5";
    /// also insert, scan, read-modify-write
    #[arg(long)]
    pub mix: Option<Mix>,
    /// Distribution by which records are chosen [default: the core workload's own]
    #[arg(long, value_enum)]
    pub distribution: Option<Distribution>,
    /// Number of records loaded
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub records: u32,
    /// Number of fields of a record
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub fields: u32,
    /// Bytes of a field's value
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub field_bytes: u32,
    /// Number of operations in a transaction; with 1, as in the original, each is alone
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub operations: u32,
    /// Number of records of a range read: a range from which it is drawn, or one number
    #[arg(long, default_value = "1-100")]
    pub scan_lengths: Lengths,
}

impl YcsbOptions {
    pub(super) fn mix(&self) -> Mix {
        self.mix.unwrap_or_else(|| self.core.mix())
    }

    pub(super) fn distribution(&self) -> Distribution {
        self.distribution.unwrap_or_else(|| self.core.distribution())
    }

    /// The core workload's letter, or the mix where that is another.
    pub(super) fn name(&self) -> String {
        match self.mix {
            Some(mix) => mix.to_string(),
            None => self.core.letter().to_owned(),
        }
    }
}

impl WorkloadOptions for YcsbOptions {
    fn make(&self) -> Result<Box<dyn Workload>, BenchError> {
        Ok(Box::new(Ycsb { options: self.clone(), mix: self.mix() }))
    }
}

/// A range of lengths, both ends included; "10" is "10-10".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    /// Least length of the range.
    pub least: u32,
    /// Greatest length of the range.
    pub most: u32,
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) if 1 <= least && least <= most && most <= 10_000 => Ok(Self { least, most }),
            _ => Err("a number from 1 to 10000, or two with a dash between, is expected".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_one_number_or_two_in_order() {
        assert_eq!("10".parse(), Ok(Lengths { least: 10, most: 10 }));
        assert_eq!("1-100".parse(), Ok(Lengths { least: 1, most: 100 }));
        for bad in ["", "0", "5-4", "1-", "1-10001", "x"] {
            assert!(bad.parse::<Lengths>().is_err(), "{bad}");
        }
    }
}
