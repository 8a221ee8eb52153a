//! One figure over several rounds: the median, the least and the most.

/// The median of the rounds, with the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// Value of the round with the least.
    pub least: f64,
    /// Value of the round with the most.
    pub most: f64,
}

impl Spread {
    /// The spread of the values of all rounds; `None` when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Self { median, least, most })
    }
}

/// The median of the values of all rounds; `None` when there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([]), None);
    }

    #[test]
    fn spread_is_from_the_least_to_the_most() {
        assert_eq!(Spread::of([5.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 5.0 }));
    }
}
