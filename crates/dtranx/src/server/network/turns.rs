//! The order in which connections are read in one turn: servers first, then clients. Another client
//! is the first one each time that a turn ends before all had theirs.

use std::collections::BTreeSet;

use mio::Token;

pub(super) fn order(readable: &BTreeSet<Token>, is_server: impl Fn(Token) -> bool, first: Token) -> Vec<Token> {
    let (mut order, clients): (Vec<_>, Vec<_>) = readable.iter().partition(|token| is_server(**token));
    let at = clients.partition_point(|token| *token < first);
    order.extend_from_slice(&clients[at..]);
    order.extend_from_slice(&clients[..at]);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_servers_first_and_goes_on_where_the_last_turn_ended() {
        let readable: BTreeSet<_> = [2, 3, 5, 7, 8].map(Token).into();
        let ordered =
            |first| order(&readable, |token| [5, 8].contains(&token.0), Token(first)).into_iter().map(|t| t.0);
        assert!(ordered(0).eq([5, 8, 2, 3, 7]));
        assert!(ordered(3).eq([5, 8, 3, 7, 2]));
        assert!(ordered(9).eq([5, 8, 2, 3, 7]));
    }
}
