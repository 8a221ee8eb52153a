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
    /// What is being decided when the query is permitted is shown as if it were not decided.
    OutcomeNotAsked,
    /// It does not matter how many documents of the answer later transactions have written to.
    LaterNotCounted,
    /// A transaction begins to count when its outcome is known, not before it is decided.
    CountedWhenKnown,
    /// The permit is given when the second document is read.
    PermittedLate,
    /// What has begun meanwhile is looked at before the outcomes are asked for.
    LookedBeforeAsking,
    /// It does not matter how many documents of the answer those have written to that were being
    /// decided when the query was permitted.
    OpenNotCounted,
}
