//! Results of the ACID tests by target, level and clause, and the text that reports them. The tests
//! are in the files beside it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::targets::Isolation;

/// Results of the ACID tests on all targets and at all levels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AcidReport {
    /// Reports of the targets, in the order they were tested.
    pub targets: Vec<TargetReport>,
}

/// Results of one target at one isolation level.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TargetReport {
    /// Name of the target that was tested.
    pub target: String,
    /// The level; `None` for a target without transactions.
    pub isolation: Option<Isolation>,
    /// Results of the tests, in the order of the clauses.
    pub tests: Vec<TestReport>,
}

/// Result of the test of one clause on one target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TestReport {
    /// The clause of the specification: "3.4.2.1".
    pub clause: String,
    /// The demand of the clause.
    pub asks: String,
    /// The outcome of the test.
    pub outcome: TestResult,
}

/// Result of a test of a clause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestResult {
    /// The demand of the clause is met.
    Passed,
    /// The demand of the clause is not met; what was seen.
    Failed(String),
    /// The target cannot do what the test needs, and says so.
    Refused(String),
}

impl TargetReport {
    /// Clauses of the tests that did not pass.
    pub fn failed(&self) -> Vec<&str> {
        let failed = self.tests.iter().filter(|test| test.outcome != TestResult::Passed);
        failed.map(|test| test.clause.as_str()).collect()
    }
}

impl TestReport {
    pub(crate) fn new(clause: &str, asks: &str, outcome: TestResult) -> Self {
        Self { clause: clause.to_owned(), asks: asks.to_owned(), outcome }
    }
}

impl fmt::Display for AcidReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for target in &self.targets {
            writeln!(f, "{target}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TargetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.isolation {
            None => "no transactions",
            Some(Isolation::ReadCommitted) => "read committed",
            Some(Isolation::RepeatableRead) => "repeatable read",
            Some(Isolation::Snapshot) => "snapshot",
            Some(Isolation::Serializable) => "serializable",
        };
        writeln!(f, "{} ({level}): {} of {} tests failed", self.target, self.failed().len(), self.tests.len())?;
        for TestReport { clause, asks, outcome } in &self.tests {
            match outcome {
                TestResult::Passed => writeln!(f, "  passed   {clause:<8} {asks}")?,
                TestResult::Failed(what) => writeln!(f, "  FAILED   {clause:<8} {asks}\n           {:<8} {what}", "")?,
                TestResult::Refused(why) => writeln!(f, "  refused  {clause:<8} {asks}\n           {:<8} {why}", "")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_what_failed_in_which_clause() {
        let tests = vec![
            TestReport::new("3.2.2.1", "commits", TestResult::Passed),
            TestReport::new("3.2.2.2", "takes back", TestResult::Failed("half is there".to_owned())),
        ];
        let target = TargetReport { target: "plain".to_owned(), isolation: None, tests };
        assert_eq!(target.failed(), ["3.2.2.2"]);
        let printed = AcidReport { targets: vec![target] }.to_string();
        assert!(printed.contains("plain (no transactions): 1 of 2 tests failed"), "{printed}");
        assert!(printed.contains("FAILED   3.2.2.2") && printed.contains("half is there"), "{printed}");
    }
}
