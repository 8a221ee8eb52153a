//! Clients' requests are carried out once (section 4.2 of the paper): the connected clients, and
//! the answers to their latest requests.

use std::collections::BTreeMap;

use super::{
    config::NodeConfig,
    event::CommitAnswer,
    flaw::Flaw,
    id::{ClientId, Incarnation, MessageId},
    refusal::Refusal,
};

/// Connected clients, and their latest requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Clients {
    connected: BTreeMap<ClientId, Requests>,
}

/// The last requests of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Requests {
    /// Answers by request; `None`: the request is under way.
    answers: BTreeMap<MessageId, Option<CommitAnswer>>,
    /// Requests up to this one are forgotten, and so old that they are not carried out.
    forgotten: Option<MessageId>,
}

/// Decision about a request that has arrived.
pub(crate) enum Admission {
    /// The request is new: carry it out.
    New,
    /// The request was answered before: send this answer again.
    Answer(CommitAnswer),
    /// Answer nothing: the request is under way, or too old; or there is no room for it, and an
    /// earlier copy may be under way.
    Ignore,
}

impl Clients {
    /// Notes a connection that `incarnation` has accepted, this one if it is open yet.
    pub(crate) fn connect(&mut self, config: &NodeConfig, incarnation: Option<Incarnation>, client: ClientId) {
        if incarnation == Some(client.incarnation) && self.connected.len() < config.max_clients {
            self.connected.entry(client).or_default();
        }
    }

    pub(crate) fn leave(&mut self, client: ClientId) {
        self.connected.remove(&client);
    }

    /// Decides whether a request is to be carried out. If so, it counts as under way from now on. A
    /// refusal for want of room is not remembered; a client believes it only of a first copy.
    pub(crate) fn admit(
        &mut self,
        config: &NodeConfig,
        client: ClientId,
        message: MessageId,
        is_repeated: bool,
    ) -> Admission {
        let Some(requests) = self.connected.get_mut(&client) else {
            return Admission::Answer(CommitAnswer::Indeterminate);
        };
        match requests.answers.get(&message) {
            Some(_) if config.has(Flaw::RequestRepeated) => {}
            Some(None) => return Admission::Ignore,
            Some(Some(answer)) => return Admission::Answer(answer.clone()),
            None if requests.forgotten >= Some(message) => return Admission::Ignore,
            None => {}
        }
        if requests.answers.len() >= config.client_window && !requests.forget_first() {
            if is_repeated {
                return Admission::Ignore;
            }
            let limit = format!("{} requests of one client under way", config.client_window);
            return Admission::Answer(CommitAnswer::Refused(Refusal::Overloaded { limit }));
        }
        requests.answers.insert(message, None);
        Admission::New
    }

    /// Notes the answer to a request. The values that go with a refusal, and all hints but the
    /// first, are not kept for a repeated answer.
    pub(crate) fn answered(&mut self, client: ClientId, message: MessageId, answer: &CommitAnswer) {
        let kept = match answer {
            CommitAnswer::Refused(Refusal::Stale { kept, .. }) => {
                CommitAnswer::Refused(Refusal::Stale { current: vec![], kept: *kept })
            }
            CommitAnswer::Refused(Refusal::NotHere { server, key, moved }) => {
                let moved = moved.iter().take(1).cloned().collect();
                CommitAnswer::Refused(Refusal::NotHere { server: *server, key: key.clone(), moved })
            }
            other => other.clone(),
        };
        if let Some(stored) = self.connected.get_mut(&client).and_then(|requests| requests.answers.get_mut(&message)) {
            *stored = Some(kept);
        }
    }
}

impl Requests {
    /// Forgets the first request that is answered, unless an earlier one is under way. Returns
    /// whether there was one.
    fn forget_first(&mut self) -> bool {
        match self.answers.first_key_value() {
            Some((message, Some(_))) => {
                self.forgotten = self.forgotten.max(Some(*message));
                self.answers.pop_first();
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Partition, ServerId, TranxId};

    const ME: ClientId = ClientId { incarnation: Incarnation(7), number: 1 };

    fn clients() -> (NodeConfig, Clients) {
        let mut config = NodeConfig::new(ServerId(1), Partition::Hash(vec![ServerId(1)]));
        config.client_window = 2;
        let mut clients = Clients::default();
        clients.connect(&config, Some(Incarnation(7)), ME);
        (config, clients)
    }

    fn committed(number: u64) -> CommitAnswer {
        CommitAnswer::Committed(TranxId { server: ServerId(1), number })
    }

    #[test]
    fn admit_repeated_request_is_answered_the_same_and_not_carried_out() {
        let (config, mut clients) = clients();
        assert!(matches!(clients.admit(&config, ME, MessageId(1), false), Admission::New));
        assert!(matches!(clients.admit(&config, ME, MessageId(1), false), Admission::Ignore));
        clients.answered(ME, MessageId(1), &committed(5));
        assert!(
            matches!(clients.admit(&config, ME, MessageId(1), false), Admission::Answer(answer) if answer == committed(5))
        );
    }

    #[test]
    fn admit_forgotten_request_is_never_carried_out() {
        let (config, mut clients) = clients();
        for number in 1..=3 {
            assert!(matches!(clients.admit(&config, ME, MessageId(number), false), Admission::New));
            clients.answered(ME, MessageId(number), &committed(number));
        }
        assert!(matches!(clients.admit(&config, ME, MessageId(1), false), Admission::Ignore));
    }

    #[test]
    fn admit_more_requests_under_way_than_the_limit_are_refused() {
        let (config, mut clients) = clients();
        clients.admit(&config, ME, MessageId(1), false);
        clients.admit(&config, ME, MessageId(2), false);
        let refused = clients.admit(&config, ME, MessageId(3), false);
        assert!(matches!(refused, Admission::Answer(CommitAnswer::Refused(Refusal::Overloaded { .. }))));
    }

    #[test]
    fn admit_repeated_request_without_room_is_neither_refused_nor_carried_out() {
        let (config, mut clients) = clients();
        clients.admit(&config, ME, MessageId(1), false);
        clients.admit(&config, ME, MessageId(2), false);
        assert!(matches!(clients.admit(&config, ME, MessageId(3), true), Admission::Ignore));
        clients.answered(ME, MessageId(1), &committed(1));
        assert!(matches!(clients.admit(&config, ME, MessageId(3), true), Admission::New));
    }

    /// Reason why a client does not believe the first refusal of a request that it has sent twice:
    /// the second copy may be right behind the first one, also if the client connected anew in
    /// between.
    #[test]
    fn admit_repeated_request_is_carried_out_although_its_first_copy_was_refused() {
        let (config, mut clients) = clients();
        clients.admit(&config, ME, MessageId(1), false);
        clients.admit(&config, ME, MessageId(2), false);
        let refused = clients.admit(&config, ME, MessageId(3), false);
        assert!(matches!(refused, Admission::Answer(CommitAnswer::Refused(Refusal::Overloaded { .. }))));
        clients.answered(ME, MessageId(1), &committed(1));
        assert!(matches!(clients.admit(&config, ME, MessageId(3), true), Admission::New));
    }

    #[test]
    fn admit_client_of_another_incarnation_is_indeterminate() {
        let (config, mut clients) = clients();
        let before = ClientId { incarnation: Incarnation(6), number: 1 };
        clients.connect(&config, Some(Incarnation(7)), before);
        let refused = clients.admit(&config, before, MessageId(1), false);
        assert!(matches!(refused, Admission::Answer(CommitAnswer::Indeterminate)));
    }
}
