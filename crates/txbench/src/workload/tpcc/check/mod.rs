//! The consistency conditions of clause 3.3.2, on what the database holds once nothing is in
//! flight.
//!
//! [`mod@read`] brings the rows of any layout into one form, [`conditions`] looks at that. All is
//! read, a district at a time; what is kept of an order is a few numbers.

pub mod conditions;
pub mod read;
pub mod state;

pub use conditions::violations;
pub use read::read;
pub use state::State;

/// A condition that does not hold somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Number of the condition, 1 to 12: the last number of the clause.
    pub condition: u8,
    /// The fault, with its warehouse, district, order or customer.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "condition 3.3.2.{}: {}", self.condition, self.what)
    }
}

/// The violations as one text: their number, and the first of each condition.
pub fn tell(violations: &[Violation]) -> String {
    let mut first: Vec<&Violation> = Vec::new();
    for violation in violations {
        if first.iter().all(|shown| shown.condition != violation.condition) {
            first.push(violation);
        }
    }
    let described: Vec<String> = first.into_iter().map(ToString::to_string).collect();
    format!("{} violation(s); {}", violations.len(), described.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_the_first_of_each_condition_is_reported() {
        let violation = |condition, what: &str| Violation { condition, what: what.to_owned() };
        let described = tell(&[violation(3, "a"), violation(3, "b"), violation(12, "c")]);
        assert_eq!(described, "3 violation(s); condition 3.3.2.3: a; condition 3.3.2.12: c");
    }
}
