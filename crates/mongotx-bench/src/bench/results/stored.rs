//! Results of a section, in a file: tables of medians and ranges, no single runs. The page is
//! made of these files alone, so that a section can be measured again by itself.

use std::path::{Path, PathBuf};

use benchkit::report::table::Table;
use serde::{Deserialize, Serialize};

use super::{super::BenchError, checkout};

/// The version of the form below.
const FORMAT: u32 = 1;
/// A file larger than this is none of ours.
const LARGEST_BYTES: u64 = 4 << 20;

/// A section that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredSection {
    format: u32,
    /// The day, as in 2026-11-26.
    pub(super) date: String,
    /// Commit of the checkout in which it was measured, with `-dirty` behind it if that had changes
    /// that were not committed. `None`: it was measured outside of a checkout.
    #[serde(default)]
    pub(super) commit: Option<String>,
    /// True if the programs were built for release; otherwise the figures are of no use.
    pub(super) is_release: bool,
    /// Commands of the section, in order.
    pub(super) measured: Vec<MeasuredCommand>,
}

/// One command and its results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MeasuredCommand {
    /// The command line that repeats it.
    pub(super) command: String,
    /// Rounds of which the figures are medians.
    pub(super) rounds: u32,
    /// Seconds of each stretch that was measured.
    pub(super) seconds: u64,
    /// Conditions of the measurement, a line each.
    pub(super) facts: Vec<String>,
    pub(super) tables: Vec<Table>,
    /// Measurements that should be in the tables and could not be made, with the reason.
    pub(super) missing: Vec<String>,
}

impl StoredSection {
    /// Section of today's measurements by this program.
    pub(super) fn today(measured: Vec<MeasuredCommand>) -> Self {
        let now = bson::DateTime::now().try_to_rfc3339_string().unwrap_or_default();
        let date = now.split('T').next().unwrap_or_default().to_owned();
        Self { format: FORMAT, date, commit: checkout::commit(), is_release: !cfg!(debug_assertions), measured }
    }

    /// Reads a section's file; `None` if there is none.
    pub(super) fn read(folder: &Path, section: &str) -> Result<Option<Self>, BenchError> {
        let file = file(folder, section);
        let refused = |reason: String| BenchError::Refused(format!("{}: {reason}", file.display()));
        let Ok(known) = std::fs::metadata(&file) else { return Ok(None) };
        if known.len() > LARGEST_BYTES {
            return Err(refused(format!("{} bytes are too many", known.len())));
        }
        let text = std::fs::read_to_string(&file).map_err(|error| refused(error.to_string()))?;
        let stored: Self = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        match stored.format {
            FORMAT => Ok(Some(stored)),
            other => Err(refused(format!("of format {other}; this version reads format {FORMAT}"))),
        }
    }

    /// Writes the section's file.
    pub(super) fn write(&self, folder: &Path, section: &str) -> Result<(), BenchError> {
        let file = file(folder, section);
        let failed = |reason: String| BenchError::Failed(format!("{}: {reason}", file.display()));
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.to_string()))?;
        std::fs::write(&file, text + "\n").map_err(|error| failed(error.to_string()))
    }
}

fn file(folder: &Path, section: &str) -> PathBuf {
    folder.join(format!("{section}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let measured =
            MeasuredCommand { command: "mongotx-bench x".to_owned(), rounds: 3, ..MeasuredCommand::default() };
        let stored = StoredSection::today(vec![measured]);
        stored.write(folder.path(), "x").unwrap();
        assert_eq!(StoredSection::read(folder.path(), "x").unwrap(), Some(stored));
        assert_eq!(StoredSection::read(folder.path(), "y").unwrap(), None);
    }

    #[test]
    fn a_file_that_is_none_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["{", "{\"format\":2,\"date\":\"\",\"is_release\":true,\"measured\":[]}"] {
            std::fs::write(folder.path().join("x.json"), text).unwrap();
            let refused = StoredSection::read(folder.path(), "x").unwrap_err().to_string();
            assert!(refused.contains("x.json"), "{refused}");
        }
    }

    #[test]
    fn the_day_is_a_day() {
        let date = StoredSection::today(Vec::new()).date;
        let numbers: Vec<u32> = date.split('-').map(|number| number.parse().unwrap()).collect();
        assert!(matches!(numbers[..], [2024..=9999, 1..=12, 1..=31]), "{date}");
    }
}
