//! Length and number of the rounds, such that all measurements fit into the time. Pure.

/// Length and number of the rounds of every measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Seconds of one stretch that is measured.
    pub(super) seconds: u64,
    /// Rounds of the main measurements.
    pub(super) main_rounds: u32,
    /// Rounds of every measurement that is not a main one.
    pub(super) rounds: u32,
}

const fn pace(seconds: u64, main_rounds: u32, rounds: u32) -> Pace {
    Pace { seconds, main_rounds, rounds }
}

/// From the longest to the shortest. Rounds come before length: what the machine does in single
/// seconds differs more than a longer stretch would say.
pub(super) const PACES: [Pace; 9] = [
    pace(10, 5, 3),
    pace(5, 5, 3),
    pace(3, 5, 3),
    pace(3, 3, 2),
    pace(2, 3, 2),
    pace(2, 3, 1),
    pace(1, 3, 1),
    pace(1, 2, 1),
    pace(1, 1, 1),
];

/// The longest pace at which everything fits; the shortest where nothing does. `needed` returns the
/// seconds that all measurements take at a pace.
pub(super) fn fitting(minutes: f64, needed: impl Fn(Pace) -> u64) -> Pace {
    let fits = |pace: &Pace| needed(*pace) as f64 <= minutes * 60.0;
    let [.., shortest] = PACES;
    PACES.into_iter().find(fits).unwrap_or(shortest)
}
