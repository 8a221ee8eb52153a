//! In which orders the steps of several transactions can follow each other.

use crate::plan::Plan;

/// More orders than the caller is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {count} interleavings, more than the limit of {limit}")]
pub struct TooMany {
    /// Number of interleavings there are.
    pub count: u128,
    /// Number of interleavings that were allowed.
    pub limit: usize,
}

/// Every order: each is a list of transactions (0, 1, …) in the order of their turns. Always the
/// same orders in the same sequence; in the first, one transaction follows the other.
///
/// # Errors
/// [`TooMany`]: there is no choosing among them, because a choice would be silent about what it
/// left out.
pub fn interleavings(plans: &[Plan], limit: usize) -> Result<Vec<Vec<usize>>, TooMany> {
    let count = count_orders(plans);
    if count > limit as u128 {
        return Err(TooMany { count, limit });
    }
    let mut order: Vec<usize> =
        plans.iter().enumerate().flat_map(|(tx, plan)| std::iter::repeat_n(tx, plan.len())).collect();
    let mut all = vec![order.clone()];
    while next_order(&mut order) {
        all.push(order.clone());
    }
    Ok(all)
}

/// Returns true if one transaction follows the other, with nothing in between.
pub fn is_serial(order: &[usize]) -> bool {
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let mut present = order.to_vec();
    present.sort_unstable();
    present.dedup();
    changes + 1 == present.len()
}

/// The multinomial coefficient, as a product of binomial ones.
fn count_orders(plans: &[Plan]) -> u128 {
    let (mut count, mut placed) = (1_u128, 0_u128);
    for plan in plans {
        for step in 1..=plan.len() as u128 {
            placed += 1;
            count = count.saturating_mul(placed) / step;
        }
    }
    count
}

/// The next permutation in the order of the dictionary; false after the last.
fn next_order(order: &mut [usize]) -> bool {
    let Some(at) = order.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let with = order.iter().rposition(|tx| *tx > order[at]).unwrap_or(at);
    order.swap(at, with);
    order[at + 1..].reverse();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::parse_plans;

    fn orders(texts: &[&str]) -> Vec<Vec<usize>> {
        interleavings(&parse_plans(texts).unwrap(), 10_000).unwrap()
    }

    #[test]
    fn two_of_two_steps_have_six_orders() {
        let expected =
            [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0]].map(Vec::from);
        assert_eq!(orders(&["R(A) C", "W(A) C"]), expected);
    }

    #[test]
    fn the_count_is_the_multinomial_coefficient() {
        assert_eq!(orders(&["R(A) W(A) C", "R(A) W(A) C"]).len(), 20);
        assert_eq!(orders(&["R(A) C", "R(A) C", "R(A) C"]).len(), 90);
        assert_eq!(orders(&["R(A) W(A) C", "R(A) C", "A"]).len(), 60);
    }

    #[test]
    fn no_order_comes_twice() {
        let mut all = orders(&["R(A) W(A) C", "R(A) W(A) C", "R(A) C"]);
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!((all.len(), count), (560, 560));
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        let plans = parse_plans(&["R(A) W(A) C", "R(A) W(A) C"]).unwrap();
        assert_eq!(interleavings(&plans, 19), Err(TooMany { count: 20, limit: 19 }));
    }

    #[test]
    fn serial_orders_are_known() {
        assert!(is_serial(&[1, 1, 0, 0, 2]));
        assert!(!is_serial(&[0, 1, 0]));
    }
}
