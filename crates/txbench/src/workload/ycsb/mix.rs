//! YCSB's core workloads as mixes of operations, in percent, and the draw of the next operation.

use std::{fmt, str::FromStr};

use clap::ValueEnum;
use rand::{RngExt, rngs::StdRng};
use serde::{Deserialize, Serialize};

use super::distribution::Distribution;

/// A core workload of YCSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Core {
    /// Update heavy: half reads, half updates.
    A,
    /// Read mostly: 95 % reads, 5 % updates.
    B,
    /// Reads of records only.
    C,
    /// Read latest: 95 % reads of recent records, 5 % inserts.
    D,
    /// Short ranges: 95 % range reads, 5 % inserts.
    E,
    /// Read-modify-write: half reads, half updates of what was read.
    F,
}

impl Core {
    pub(super) fn letter(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
        }
    }

    pub(super) fn mix(self) -> Mix {
        let none = Mix { read: 0.0, update: 0.0, insert: 0.0, scan: 0.0, read_modify_write: 0.0 };
        match self {
            Self::A => Mix { read: 50.0, update: 50.0, ..none },
            Self::B => Mix { read: 95.0, update: 5.0, ..none },
            Self::C => Mix { read: 100.0, ..none },
            Self::D => Mix { read: 95.0, insert: 5.0, ..none },
            Self::E => Mix { scan: 95.0, insert: 5.0, ..none },
            Self::F => Mix { read: 50.0, read_modify_write: 50.0, ..none },
        }
    }

    pub(super) fn distribution(self) -> Distribution {
        match self {
            Self::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }
}

/// A kind of operation of YCSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// Proportions in percent. They add up to 100.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// Proportion of reads of one record.
    pub read: f64,
    /// Updates of one field of a record.
    pub update: f64,
    /// Proportion of inserts of records.
    pub insert: f64,
    /// Reads of several records in the order of their keys.
    pub scan: f64,
    /// Reads of a record followed by an update of it.
    pub read_modify_write: f64,
}

impl Mix {
    fn parts(&self) -> [(Kind, f64); 5] {
        [
            (Kind::Read, self.read),
            (Kind::Update, self.update),
            (Kind::Insert, self.insert),
            (Kind::Scan, self.scan),
            (Kind::ReadModifyWrite, self.read_modify_write),
        ]
    }

    pub(super) fn draw(&self, random: &mut StdRng) -> Kind {
        let mut point = random.random_range(0.0..100.0);
        let mut last = Kind::Read;
        for (kind, part) in self.parts() {
            if part > 0.0 {
                if point < part {
                    return kind;
                }
                last = kind;
            }
            point -= part;
        }
        last
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        let shown =
            parts.iter().filter(|(_, part)| *part > 0.0).map(|(kind, part)| format!("{}={part}", kind.as_str()));
        f.write_str(&shown.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix = Self { read: 0.0, update: 0.0, insert: 0.0, scan: 0.0, read_modify_write: 0.0 };
        for part in text.split(',') {
            let (name, percent) =
                part.split_once('=').ok_or_else(|| format!("\"name=percent\" is expected, not {part:?}"))?;
            let percent: f64 = percent.parse().map_err(|_| format!("{percent:?} is no percentage"))?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(format!("{name}: a percentage is from 0 to 100"));
            }
            match name {
                "read" => mix.read = percent,
                "update" => mix.update = percent,
                "insert" => mix.insert = percent,
                "scan" => mix.scan = percent,
                "read-modify-write" => mix.read_modify_write = percent,
                other => return Err(format!("{other:?} is none of read, update, insert, scan, read-modify-write")),
            }
        }
        let sum: f64 = mix.parts().iter().map(|(_, part)| part).sum();
        if (sum - 100.0).abs() > 1e-6 { Err(format!("the percentages add up to {sum}, not to 100")) } else { Ok(mix) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn operations_are_drawn_in_their_proportions() {
        let cores = [Core::A, Core::B, Core::C, Core::D, Core::E, Core::F];
        for mix in cores.into_iter().map(Core::mix) {
            let mut random = StdRng::seed_from_u64(7);
            let drawn: Vec<Kind> = (0..100_000).map(|_| mix.draw(&mut random)).collect();
            for (kind, part) in mix.parts() {
                let share = drawn.iter().filter(|drawn| **drawn == kind).count() as f64 / 1_000.0;
                assert!((share - part).abs() < 0.7, "{mix}: {kind:?} {share}");
            }
        }
    }

    #[test]
    fn a_mix_is_read_as_it_is_written() {
        let mix: Mix = "read=95,update=5".parse().unwrap();
        assert_eq!(mix, Core::B.mix());
        assert_eq!(mix.to_string(), "read=95,update=5");
    }

    #[test]
    fn a_mix_that_makes_no_sense_is_refused_with_the_part() {
        for (text, said) in [
            ("read", "read"),
            ("read=x", "\"x\""),
            ("read=50", "add up to 50"),
            ("rea=100", "rea"),
            ("read=-1", "read:"),
        ] {
            let refused = text.parse::<Mix>().unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
