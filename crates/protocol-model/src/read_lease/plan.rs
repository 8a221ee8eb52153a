//! Plans of explorations of the read lease: clocks, clients, faults, and the rule that is broken.

use super::breakage::Breakage;

/// Plan of one exploration: its clients, its clocks and its faults.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Name of the plan, for reports of explorations.
    pub name: &'static str,
    /// The tick at which an exploration ends.
    pub end: u8,
    /// Number of ticks that a lease lasts by the holder's clock. A newcomer waits twice as long.
    pub lease: u8,
    /// Number of newcomers, one after the other. Only the last one may decide.
    pub newcomers: u8,
    /// True if a sweep may fence and close the holder's record.
    pub sweeps: bool,
    /// The collections of the two documents of the holder's own transaction, if it has one.
    pub own: Option<[usize; 2]>,
    /// True if the answer to the holder's decision may be lost for good.
    pub lost_answers: bool,
    /// Budget of restarts of the server.
    pub restarts: u8,
    /// Number of ticks that the holder's clock may miss.
    pub missed_ticks: u8,
    /// True if a query that counts must show what the newcomer had decided when the query was
    /// carried out, and not only when it was sent.
    pub strict: bool,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Plan {
    /// Returns true if this rule is broken on purpose.
    pub fn has(&self, breakage: Breakage) -> bool {
        self.breakage == Some(breakage)
    }

    /// The collections that are queried.
    pub fn collections(&self) -> std::ops::RangeInclusive<usize> {
        0..=self.own.map_or(0, |documents| documents[1])
    }

    /// Number of ticks that the newcomer waits.
    pub fn wait(&self) -> u8 {
        match self.breakage {
            Some(Breakage::NoWait) => 0,
            Some(Breakage::HalfWait) => self.lease / 2,
            Some(Breakage::WaitWithoutMargin) => self.lease,
            _ => 2 * self.lease,
        }
    }
}
