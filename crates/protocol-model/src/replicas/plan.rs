//! Plans of explorations of a replica set: faults that may happen, and the rule that is broken.

use super::breakage::Breakage;

/// Budget of each kind of fault: the number of times that it may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Number of elections that may still happen.
    pub elections: u8,
    /// Fences of the living owner, whose lease is found expired.
    pub expiries: u8,
    /// Number of deaths of the owner that may still happen.
    pub deaths: u8,
    /// A rival meets a locked document, without a fence.
    pub meetings: u8,
}

/// The plan of one exploration.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Name of the plan, for messages.
    pub name: &'static str,
    /// True if it begins when both documents are locked on every member, and commit is requested.
    pub locked: bool,
    /// True if the owner's record is not there at the start and is inserted first.
    pub registers: bool,
    /// Number of faults of each kind that may happen.
    pub faults: Faults,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Plan {
    /// Returns true if this rule is broken on purpose.
    pub fn has(&self, breakage: Breakage) -> bool {
        self.breakage == Some(breakage)
    }

    /// Returns this plan with the rule broken.
    pub fn broken(mut self, breakage: Breakage) -> Self {
        self.breakage = Some(breakage);
        self
    }
}
