//! Plans of explorations of queries beside own transactions.

/// Plan of one exploration: the transactions of the client.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Name of the plan, for reports of explorations.
    pub name: &'static str,
    /// The documents that each transaction writes to, in this order.
    pub writes: &'static [&'static [usize]],
    /// The rule that is broken, if one is.
    pub breakage: Option<Breakage>,
}

impl Plan {
    pub(super) fn has(&self, breakage: Breakage) -> bool {
        self.breakage == Some(breakage)
    }
}

/// Rules that can be broken on purpose. Each must make the checker find a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// Transactions that are being decided when the query is permitted are shown as if they were
    /// not decided.
    OutcomeNotAsked,
    /// The rule does not count the documents of the answer that later transactions have written to.
    LaterNotCounted,
    /// A transaction begins to count when its outcome is known, not before it is decided.
    CountedWhenKnown,
    /// The permit is given when the second document is read.
    PermittedLate,
    /// Transactions that have begun meanwhile are looked at before the outcomes are asked for.
    LookedBeforeAsking,
    /// The rule does not count the documents of the answer that transactions have written to which
    /// were being decided when the query was permitted.
    OpenNotCounted,
}
