//! Points of a file: JSON (an array, or documents one after the other) or CSV with a line of names,
//! packed (`.gz`) or not.

use std::path::Path;

use serde_json::{Map, Value};

use super::{
    fields::{self, Fields},
    point::Point,
};
use crate::{
    error::BenchError,
    workload::documents::{self, Documents},
};

const OPTION: &str = "--points";
/// The most points there may be.
pub(super) const MOST: usize = 1_000_000;

/// All points of a file.
///
/// # Errors
/// [`BenchError::Refused`]: which field of which line is wrong, or that there are too many.
pub(super) fn read(path: &Path, fields: Option<&Fields>) -> Result<Vec<Point>, BenchError> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    match name.strip_suffix(".gz").unwrap_or(&name).ends_with(".csv") {
        true => read_csv(path, fields),
        false => read_json(path, fields),
    }
}

fn read_json(path: &Path, fields: Option<&Fields>) -> Result<Vec<Point>, BenchError> {
    let mut documents: Documents<Map<String, Value>> = Documents::open(OPTION, path)?;
    let mut points = Points::new(fields);
    while let Some(record) = documents.next().transpose()? {
        points.add(&record).map_err(|what| documents.refused(documents.line(), what))?;
    }
    Ok(points.points)
}

fn read_csv(path: &Path, fields: Option<&Fields>) -> Result<Vec<Point>, BenchError> {
    let refused = |what: &dyn std::fmt::Display| BenchError::Refused(format!("{OPTION}: {}, {what}", path.display()));
    let mut reader = csv::Reader::from_reader(documents::open(OPTION, path)?);
    let names = reader.headers().map_err(|error| refused(&error))?.clone();
    let mut points = Points::new(fields);
    for row in reader.records() {
        let row = row.map_err(|error| refused(&error))?;
        let value = |(name, value): (&str, &str)| (name.trim().to_owned(), Value::from(value));
        let record: Map<String, Value> = names.iter().zip(row.iter()).map(value).collect();
        let line = row.position().map_or(0, csv::Position::line);
        points.add(&record).map_err(|what| refused(&format_args!("line {line}: {what}")))?;
    }
    Ok(points.points)
}

struct Points<'a> {
    fields: Option<&'a Fields>,
    points: Vec<Point>,
}

impl<'a> Points<'a> {
    fn new(fields: Option<&'a Fields>) -> Self {
        Self { fields, points: Vec::new() }
    }

    fn add(&mut self, record: &Map<String, Value>) -> Result<(), String> {
        if self.points.len() == MOST {
            return Err(format!("at most {MOST} points are allowed"));
        }
        self.points.push(fields::point(record, self.fields)?);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn read_text(suffix: &str, text: &str, fields: Option<&str>) -> Result<Vec<Point>, String> {
        let file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
        match suffix.ends_with(".gz") {
            true => {
                let mut packed = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
                packed.write_all(text.as_bytes()).unwrap();
                drop(packed.finish().unwrap());
            }
            false => std::fs::write(file.path(), text).unwrap(),
        }
        let fields = fields.map(|text| text.parse().unwrap());
        read(file.path(), fields.as_ref()).map_err(|error| error.to_string())
    }

    #[test]
    fn json_and_csv_are_read_packed_or_not() {
        let expected = vec![Point::new(1.5, 2.0).unwrap(), Point::new(-3.0, 4.0).unwrap()];
        let json = "{\"loc\": [1.5, 2]}\n{\"loc\": [-3, 4]}\n";
        let csv = "city,lat,lon\n\"A, B\",2,1.5\nC,4,-3\n";
        for (suffix, text) in [(".json", json), (".json.gz", json), (".csv", csv), (".CSV.gz", csv)] {
            assert_eq!(read_text(suffix, text, None).unwrap(), expected, "{suffix}");
        }
        assert_eq!(read_text(".csv", "a,b\n1.5,2\n-3,4\n", Some("a,b")).unwrap(), expected);
    }

    #[test]
    fn an_error_names_line_and_field() {
        for (suffix, text, said) in [
            (".json", "{\"loc\": [1, 2]}\n{\"loc\": [1]}", "line 2: loc is no pair"),
            (".json", "[{\"loc\": [1, 2]},\n\n{\"lok\": [1]}]", "line 3: no field holds a point"),
            (".csv", "lat,lon\n1,2\n1,x\n", "line 3: lon is no number: \"x\""),
            (".csv", "lat,lon\n1,2\n1\n", "line: 3"),
        ] {
            let error = read_text(suffix, text, None).unwrap_err();
            assert!(error.starts_with("--points: ") && error.contains(said), "{error}");
        }
    }
}
