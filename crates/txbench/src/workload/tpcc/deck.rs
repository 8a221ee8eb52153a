//! The choice of the next transaction (clause 5.2.4.2): cards are dealt from a shuffled deck, so
//! that every terminal has at least the percentages of clause 5.2.3 (43 % payment, 4 % each of the
//! rarer ones) after every whole deck.

use std::time::Duration;

use super::{draw::Draw, kind::Kind};

/// Number of cards of each kind in one deck.
const CARDS: [(Kind, usize); 5] =
    [(Kind::NewOrder, 10), (Kind::Payment, 10), (Kind::OrderStatus, 1), (Kind::Delivery, 1), (Kind::StockLevel, 1)];
/// Greatest think time, as a multiple of the mean (clause 5.2.5.4).
const LONGEST_THINK: f64 = 10.0;

/// The deck of one terminal.
#[derive(Debug, Default)]
pub struct Deck(Vec<Kind>);

impl Deck {
    /// Deals the kind of the terminal's next transaction; an empty deck is shuffled anew.
    pub fn deal(&mut self, draw: &mut Draw) -> Kind {
        if self.0.is_empty() {
            self.0 = CARDS.into_iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, count)).collect();
            draw.shuffle(&mut self.0);
        }
        self.0.pop().unwrap_or(Kind::NewOrder)
    }
}

/// Time that an answer of this kind is looked at: the negative exponential distribution of clause
/// 5.2.5.4.
pub fn think_time(kind: Kind, draw: &mut Draw) -> Duration {
    kind.mean_think_time().mul_f64((-(1.0 - draw.fraction()).ln()).min(LONGEST_THINK))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_mix_has_the_minimum_percentages() {
        let (mut deck, mut draw) = (Deck::default(), Draw::new(1, 0));
        let mut counts = BTreeMap::<Kind, u32>::new();
        for _ in 0..23 * 1_000 {
            *counts.entry(deck.deal(&mut draw)).or_default() += 1;
        }
        let percent = |kind| f64::from(counts[&kind]) / 230.0;
        assert!(percent(Kind::Payment) >= 43.0);
        assert!([Kind::OrderStatus, Kind::Delivery, Kind::StockLevel].into_iter().all(|kind| percent(kind) >= 4.0));
        assert_eq!(counts[&Kind::NewOrder], 10_000);
    }

    #[test]
    fn decks_are_shuffled() {
        let (mut deck, mut draw) = (Deck::default(), Draw::new(1, 0));
        let mut next = || (0..23).map(|_| deck.deal(&mut draw)).collect::<Vec<_>>();
        assert_ne!(next(), next());
    }

    #[test]
    fn think_times_have_their_mean_and_an_end() {
        let mut draw = Draw::new(1, 0);
        let times: Vec<f64> = (0..50_000).map(|_| think_time(Kind::Payment, &mut draw).as_secs_f64()).collect();
        let mean = times.iter().sum::<f64>() / 50_000.0;
        assert!((11.7..12.3).contains(&mean), "{mean}");
        assert!(times.iter().all(|time| (0.0..=120.0).contains(time)));
    }
}
