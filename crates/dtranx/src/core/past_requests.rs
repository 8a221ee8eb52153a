//! The requests of clients that earlier lives of the server have committed, by their names in the
//! log: a client that has lost the answer with the server's life may ask the next life.
//!
//! A request gets a number of its coordinator, and only larger ones than its client has heard of
//! before; the first of these is the number that names the life which accepted the client. What is
//! kept here are all commits above some number. So a request is known not to be committed if it
//! could have got none but larger numbers, and is not here.
//!
//! Nothing is added while a life lasts. Its own requests are in `clients`.

use std::collections::BTreeMap;

use super::{
    config::NodeConfig,
    event::CommitAnswer,
    flaw::Flaw,
    id::{Incarnation, RequestId, ServerId, TranxId},
    refusal::Refusal,
};

/// Outcome of a request of an earlier life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// The request is committed, durably, as this transaction.
    Committed(TranxId),
    /// The request is not committed, and never will be.
    NotCommitted,
    /// The outcome is not known: what is known does not reach back so far, or the request is of
    /// this life or of a later one.
    Indeterminate,
}

impl RequestOutcome {
    /// Answer of `server` to a client that asks. It follows from committed entries of the log
    /// alone, so that it is true whenever it arrives, and needs no round of a group (decision
    /// 0075).
    pub(crate) const fn answer(self, server: ServerId) -> CommitAnswer {
        match self {
            Self::Committed(tranx) => CommitAnswer::Committed(tranx),
            Self::NotCommitted => CommitAnswer::Refused(Refusal::Restarted { server }),
            Self::Indeterminate => CommitAnswer::Indeterminate,
        }
    }
}

/// The commits of a coordinator above some number, with the names of their requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PastRequests {
    requests: BTreeMap<u64, RequestId>,
    /// Number of the transaction that each request has committed.
    numbers: BTreeMap<RequestId, u64>,
    /// Commits up to this number may be missing.
    forgotten: u64,
}

impl PastRequests {
    /// The requests of a log from which commits up to `forgotten` may have been removed.
    pub(crate) fn above(forgotten: u64) -> Self {
        Self { forgotten, ..Self::default() }
    }

    /// Notes a commit, and forgets the one with the lowest number if there are too many.
    pub(crate) fn committed(&mut self, config: &NodeConfig, number: u64, request: RequestId) {
        self.requests.insert(number, request);
        self.numbers.insert(request, number);
        if self.requests.len() > config.max_past_requests
            && let Some((lowest, request)) = self.requests.pop_first()
        {
            self.numbers.remove(&request);
            self.forgotten = self.forgotten.max(lowest);
        }
    }

    /// Outcome of a request that got no number up to `above`, by what `life` knows.
    ///
    /// A life knows every commit of those before it: it begins with a log of which everything is
    /// committed, and which has everything that ever was. Of later lives it knows nothing (G14).
    ///
    /// `above` is what the client says. No life before this one has given a number as large as the
    /// one that names this one: who has heard of one speaks of another store.
    pub(crate) fn request_outcome(
        &self,
        config: &NodeConfig,
        life: Incarnation,
        request: RequestId,
        above: u64,
    ) -> RequestOutcome {
        if let Some(number) = self.numbers.get(&request) {
            return RequestOutcome::Committed(TranxId { server: config.me, number: *number });
        }
        let asked = request.client.incarnation;
        let is_earlier = asked < life || config.has(Flaw::NotFoundOfLaterLives) && asked != life;
        let heard = if above < life.0 { above } else { 0 };
        let above = heard.max(asked.0.saturating_sub(1));
        let reaches_back = above >= self.forgotten || config.has(Flaw::NotFoundOfForgotten);
        if is_earlier && reaches_back { RequestOutcome::NotCommitted } else { RequestOutcome::Indeterminate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{ClientId, MessageId, Partition, ServerId};

    const ME: ServerId = ServerId(1);

    fn config() -> NodeConfig {
        let mut config = NodeConfig::new(ME, Partition::Hash(vec![ME]));
        config.max_past_requests = 3;
        config
    }

    fn request(life: u64, message: u64) -> RequestId {
        let client = ClientId { incarnation: Incarnation(life), number: 7 };
        RequestId { client, message: MessageId(message) }
    }

    fn committed(number: u64) -> RequestOutcome {
        RequestOutcome::Committed(TranxId { server: ME, number })
    }

    /// Requests 1 and 2 of life 10, committed with the numbers 10 and 12.
    fn past(forgotten: u64) -> PastRequests {
        let mut past = PastRequests::above(forgotten);
        past.committed(&config(), 10, request(10, 1));
        past.committed(&config(), 12, request(10, 2));
        past
    }

    #[test]
    fn request_that_is_found_is_committed_whoever_asks_and_whatever_was_forgotten() {
        for life in [10, 20] {
            assert_eq!(past(11).request_outcome(&config(), Incarnation(life), request(10, 2), 0), committed(12));
        }
    }

    #[test]
    fn request_that_is_not_found_is_denied_by_a_later_life_only() {
        let past = past(9);
        let outcome = |life, asked| past.request_outcome(&config(), Incarnation(life), request(asked, 3), 0);
        assert_eq!(outcome(20, 10), RequestOutcome::NotCommitted);
        assert_eq!(outcome(20, 20), RequestOutcome::Indeterminate, "it may be under way");
        assert_eq!(outcome(20, 30), RequestOutcome::Indeterminate, "a later life may have committed it");
    }

    #[test]
    fn request_that_is_not_found_is_denied_only_as_far_back_as_commits_are_known() {
        let past = past(11);
        let outcome = |above| past.request_outcome(&config(), Incarnation(20), request(10, 3), above);
        assert_eq!(outcome(0), RequestOutcome::Indeterminate, "it may have got number 10 or 11");
        assert_eq!(outcome(10), RequestOutcome::Indeterminate, "it may have got number 11");
        assert_eq!(outcome(11), RequestOutcome::NotCommitted);
    }

    #[test]
    fn number_that_no_earlier_life_has_given_says_nothing() {
        let outcome = |above| past(11).request_outcome(&config(), Incarnation(20), request(10, 3), above);
        assert_eq!(
            [outcome(19), outcome(20), outcome(u64::MAX)],
            [RequestOutcome::NotCommitted, RequestOutcome::Indeterminate, RequestOutcome::Indeterminate]
        );
    }

    #[test]
    fn request_beyond_the_limit_is_forgotten_with_all_lower_numbers() {
        let mut past = past(0);
        past.committed(&config(), 13, request(10, 3));
        past.committed(&config(), 14, request(10, 4));
        let outcome = |message, above| past.request_outcome(&config(), Incarnation(20), request(10, message), above);
        assert_eq!(outcome(1, 0), RequestOutcome::Indeterminate, "it had number 10");
        assert_eq!([outcome(2, 0), outcome(3, 0), outcome(4, 0)], [12, 13, 14].map(committed));
        assert_eq!([outcome(5, 9), outcome(5, 10)], [RequestOutcome::Indeterminate, RequestOutcome::NotCommitted]);
    }
}
