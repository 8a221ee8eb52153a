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
const PACES: [Pace; 9] = [
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

#[cfg(test)]
mod tests {
    use super::{super::plan::SECTIONS, *};

    fn all(pace: Pace) -> u64 {
        SECTIONS.iter().map(|section| section.seconds(pace)).sum()
    }

    #[test]
    fn a_longer_time_is_used_and_a_shorter_one_kept() {
        for minutes in [20.0, 25.0, 60.0, 240.0] {
            let pace = fitting(minutes, all);
            assert!(all(pace) as f64 <= minutes * 60.0, "{pace:?} in {minutes} minutes takes {} s", all(pace));
        }
        let of = |minutes| all(fitting(minutes, all));
        assert!(of(25.0) < of(60.0) && of(60.0) < of(240.0));
        assert_eq!(fitting(0.1, all), Pace { seconds: 1, main_rounds: 1, rounds: 1 });
    }

    #[test]
    fn each_pace_is_shorter_than_the_one_before() {
        let seconds: Vec<u64> = PACES.map(all).to_vec();
        assert!(seconds.is_sorted_by(|one, next| one > next), "{seconds:?}");
    }

    #[test]
    fn what_the_page_is_read_for_has_three_rounds_in_25_minutes() {
        assert!(fitting(25.0, all).main_rounds >= 3, "all takes {:?}", PACES.map(all));
    }
}
