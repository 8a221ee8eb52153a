//! Rivals that take turns: A B A B, so that what else the machine does meets all of them alike.

/// One turn of one rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of the round, from 1.
    pub round: u32,
    /// Place of the rival among all, from 0.
    pub rival: usize,
}

/// All turns, in order: in each round every rival has one.
pub fn turns(rounds: u32, rivals: usize) -> impl Iterator<Item = Turn> {
    (1..=rounds).flat_map(move |round| (0..rivals).map(move |rival| Turn { round, rival }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rivals_alternate_in_every_round() {
        let all: Vec<(u32, usize)> = turns(2, 3).map(|turn| (turn.round, turn.rival)).collect();
        assert_eq!(all, [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]);
    }
}
