//! Requests that wait at a link, and bytes to be written. Nothing here waits or calls back: see
//! [`Over`].

use std::collections::{BTreeMap, btree_map::Entry};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{Answer, Done, Ticket};
use crate::core::{ClientId, CommitAnswer, Refusal};
use crate::wire::{Ask, Reply, Request, Response, encode};

/// Bytes that may wait here to be written, beside the last request. Requests beyond them wait at
/// their callers.
const UNSENT_LIMIT_BYTES: usize = 16 << 20;
/// Time after a request within which a lost connection is made again at once; later, it is made
/// with the next request.
const REST: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct State {
    pub(super) stream: Option<Arc<TcpStream>>,
    pub(super) name: Option<ClientId>,
    pub(super) next_id: u64,
    /// Time of the last request; at first, the time when this was made.
    pub(super) asked: Option<Instant>,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    pub(super) out: Vec<u8>,
    /// A thread has taken bytes and is writing them: bytes of others would come in between.
    pub(super) is_writing: bool,
    /// Requests were held back because there is too much to be written. Later ones wait behind
    /// them: a server forgets numbers in their order.
    is_behind: bool,
    /// The writer sleeps: ringing costs a system call otherwise.
    pub(super) writer_sleeps: bool,
    /// Reason why the link will never be connected.
    pub(super) fatal: Option<String>,
    pub(super) last_error: String,
}

pub(super) struct Waiting {
    pub(super) ask: Ask,
    pub(super) done: Done,
    pub(super) until: Instant,
    /// Name under which a copy of the request was sent, by this link or before `ask_again`. The
    /// copy may have been carried out: a commit must not be sent under another name.
    pub(super) name: Option<ClientId>,
    /// Time at which it was sent, while it waits here.
    pub(super) sent: Option<Instant>,
    pub(super) first: FirstCopy,
}

/// The first copy of a request, the only one that a server may refuse for want of room without
/// remembering it. The refusal may come over the next connection: the copy may have waited at the
/// server until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstCopy {
    /// The first copy was not sent, or its refusal has come.
    Gone,
    /// One copy was sent, and no other.
    Alone,
    /// A further copy was sent behind it. The server may refuse the first one and carry out the
    /// other.
    Followed,
}

/// A request that is over. Its receiver is called without the lock.
pub(super) struct Over {
    pub(super) done: Done,
    pub(super) answer: Answer,
}

impl Over {
    pub(super) fn tell(self) {
        (self.done)(self.answer);
    }
}

impl Waiting {
    /// A request that `ask_again` repeats. The first copy may still be refused, and further copies
    /// may have been sent behind it.
    pub(super) fn again(ticket: Ticket, ask: Ask, until: Instant, done: Done) -> Self {
        Self { ask, done, until, name: Some(ticket.client), sent: None, first: FirstCopy::Followed }
    }

    pub(super) fn over(self, id: u64, why: &str) -> Over {
        let answer = match self.name {
            Some(client) => Answer::Silence(Ticket { client, id }),
            None => Answer::NotCarriedOut(format!("it could not be reached: {why}")),
        };
        Over { done: self.done, answer }
    }

    /// Is this an answer to the first copy, which was refused, while a further copy may be carried
    /// out? If so, the next refusal is the answer: the server remembers it, and gets the request
    /// again soon.
    fn is_of_first_copy(&mut self, reply: &Reply) -> bool {
        let is_refused = matches!(reply, Reply::Commit(CommitAnswer::Refused(Refusal::Overloaded { .. })));
        let is_of_first = is_refused && self.first == FirstCopy::Followed;
        if is_of_first {
            (self.first, self.sent) = (FirstCopy::Gone, None);
        }
        is_of_first
    }

    fn note_sent(&mut self, name: ClientId) {
        self.first = match self.first {
            FirstCopy::Gone if self.name.is_some() => FirstCopy::Gone,
            FirstCopy::Gone => FirstCopy::Alone,
            FirstCopy::Alone | FirstCopy::Followed => FirstCopy::Followed,
        };
        (self.name, self.sent) = (Some(name), Some(Instant::now()));
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self { next_id: 1, asked: Some(Instant::now()), ..Self::default() }
    }

    /// Returns true if there is something to write, a connection to write it to, and no thread that
    /// writes.
    pub(super) fn can_write(&self) -> bool {
        !self.out.is_empty() && self.stream.is_some() && !self.is_writing
    }

    /// Returns true if a connection has no use now: no request waits, and the last one is so long
    /// ago that the server would not know this client's name any more.
    pub(super) fn is_resting(&self, now: Instant) -> bool {
        let is_old = |at: Instant| now.saturating_duration_since(at) >= REST;
        self.name.is_some() && self.waiting.is_empty() && self.asked.is_none_or(is_old)
    }

    /// Forgets the bytes that were to be written, because the connection is lost. Their requests go
    /// on waiting; what was not answered over it will not be.
    pub(super) fn forget_connection(&mut self) {
        self.out.clear();
        self.is_behind = false;
    }

    /// Sends the waiting requests that are due, in their order.
    pub(super) fn send_all(&mut self, is_due: impl Fn(&Waiting) -> bool) -> Vec<Over> {
        self.is_behind = false;
        let ids: Vec<u64> = self.waiting.iter().filter(|(_, waiting)| is_due(waiting)).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| self.send(id)).collect()
    }

    /// Sends what was held back, because there is room again.
    pub(super) fn catch_up(&mut self) -> Vec<Over> {
        if self.is_behind { self.send_all(|waiting| waiting.sent.is_none()) } else { Vec::new() }
    }

    /// Puts a request among the bytes to be written, if there is a connection.
    pub(super) fn send(&mut self, id: u64) -> Option<Over> {
        let (Some(name), Some(_)) = (self.name, &self.stream) else { return None };
        if self.is_behind || self.out.len() > UNSENT_LIMIT_BYTES {
            self.is_behind = true;
            return None;
        }
        let waiting = self.waiting.get_mut(&id)?;
        // The request is lent to the message, not copied.
        let is_repeated = waiting.name.is_some();
        let request = Request { id, is_repeated, ask: std::mem::replace(&mut waiting.ask, Ask::Status) };
        let encoded = encode(&request, &mut self.out);
        waiting.ask = request.ask;
        match encoded {
            Ok(()) => {
                waiting.note_sent(name);
                None
            }
            Err(error) => {
                let waiting = self.waiting.remove(&id)?;
                Some(Over { done: waiting.done, answer: Answer::NotCarriedOut(error.to_string()) })
            }
        }
    }

    /// Takes out the request that this answers; `None` if it answers a repeated request.
    pub(super) fn answered(&mut self, response: Response) -> Option<Over> {
        let Entry::Occupied(mut waiting) = self.waiting.entry(response.id) else { return None };
        if waiting.get_mut().is_of_first_copy(&response.reply) {
            return None;
        }
        Some(Over { done: waiting.remove().done, answer: Answer::Reply(response.reply) })
    }

    /// Takes over the name that the server gave. Commits that were sent under another one get no
    /// answer any more: the server does not know of them, and would carry them out once more.
    pub(super) fn renamed(&mut self, name: ClientId) -> Vec<Over> {
        self.forget_connection();
        self.name = Some(name);
        let is_stranded = |w: &Waiting| w.name.is_some_and(|before| before != name) && w.ask.is_commit();
        let stranded: Vec<u64> = self.waiting.iter().filter(|(_, w)| is_stranded(w)).map(|(id, _)| *id).collect();
        stranded
            .into_iter()
            .filter_map(|id| self.waiting.remove(&id).map(|waiting| waiting.over(id, "the server was restarted")))
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(super) mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::core::{Incarnation, Key, ServerId, Transaction, TranxId, Value, Write};
    use crate::wire::{decode, next_frame};

    const NAME: ClientId = ClientId { incarnation: Incarnation(1), number: 1 };

    /// A commit of a value of so many bytes that no copy was sent of.
    pub(in crate::client::socket) fn waiting(bytes: usize) -> Waiting {
        let write = Write { key: Key::smallest(), value: Some(Value::new(vec![7; bytes]).unwrap()) };
        let ask = Ask::Commit(Transaction { writes: vec![write], ..Transaction::default() });
        let until = Instant::now() + Duration::from_secs(600);
        Waiting { ask, done: Box::new(drop), until, name: None, sent: None, first: FirstCopy::Gone }
    }

    fn ids(mut bytes: &[u8]) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Some((payload, taken)) = next_frame(bytes).unwrap() {
            ids.push(decode::<Request>(payload).unwrap().id);
            bytes = &bytes[taken..];
        }
        ids
    }

    #[test]
    fn connection_is_of_no_use_while_nothing_waits_and_was_asked_for_long() {
        let mut state = State::new();
        let asked = state.asked.unwrap();
        assert!(!state.is_resting(asked + REST), "it has not met the server");
        state.name = Some(NAME);
        assert!(state.is_resting(asked + REST) && !state.is_resting(asked + REST / 2));
        state.waiting.insert(1, waiting(1));
        assert!(!state.is_resting(asked + REST));
    }

    /// A commit that was sent under the name, and that `ask_again` repeats.
    fn asked_about_again() -> Waiting {
        let Waiting { ask, until, done, .. } = waiting(1);
        Waiting::again(Ticket { client: NAME, id: 1 }, ask, until, done)
    }

    fn connected() -> State {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut state = State::new();
        state.stream = Some(Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()));
        state.name = Some(NAME);
        state
    }

    /// Returns true if a request is over with this answer.
    fn is_answered(state: &mut State, answer: CommitAnswer) -> bool {
        state.answered(Response { id: 1, reply: Reply::Commit(answer) }).is_some()
    }

    fn overloaded() -> CommitAnswer {
        CommitAnswer::Refused(Refusal::Overloaded { limit: "the log".to_owned() })
    }

    #[test]
    fn commit_that_was_sent_twice_is_not_over_when_its_first_copy_is_refused_at_the_door() {
        let mut state = connected();
        state.waiting.insert(1, waiting(1));
        assert!(state.send(1).is_none() && state.send(1).is_none());
        assert!(!is_answered(&mut state, overloaded()), "the second copy may be carried out");
        assert!(is_answered(&mut state, CommitAnswer::Committed(TranxId { server: ServerId(1), number: 1 })));
    }

    #[test]
    fn commit_that_is_refused_once_more_is_refused() {
        let mut state = connected();
        state.waiting.insert(1, waiting(1));
        assert!(state.send(1).is_none() && state.send(1).is_none());
        assert!(!is_answered(&mut state, overloaded()));
        assert!(state.send(1).is_none(), "it is sent again after a while");
        assert!(is_answered(&mut state, overloaded()), "the server remembers this one");
    }

    #[test]
    fn commit_that_was_sent_once_is_refused_by_any_refusal() {
        let mut state = connected();
        state.waiting.insert(1, waiting(1));
        assert!(state.send(1).is_none());
        assert!(is_answered(&mut state, overloaded()));
    }

    #[test]
    fn refusal_of_a_first_copy_may_come_over_the_next_connection() {
        let mut state = connected();
        state.waiting.insert(1, waiting(1));
        assert!(state.send(1).is_none());
        assert_eq!(stranded(&mut state, NAME), []);
        assert!(state.send(1).is_none());
        assert!(!is_answered(&mut state, overloaded()), "the second copy may be carried out");
        // The next look sends the second copy again.
        assert!(state.waiting[&1].sent.is_none() && state.send(1).is_none());
        assert!(is_answered(&mut state, overloaded()), "the server remembers this one");
    }

    #[test]
    fn commit_that_is_asked_about_again_may_have_been_refused_at_the_door_before() {
        let mut state = connected();
        state.waiting.insert(1, asked_about_again());
        assert!(state.send(1).is_none());
        assert!(!is_answered(&mut state, overloaded()) && is_answered(&mut state, overloaded()));
    }

    /// How many copies were sent before `ask_again` is not known any more.
    #[test]
    fn refusal_before_the_commit_is_sent_again_may_be_of_the_first_of_several_copies() {
        let mut state = connected();
        state.is_behind = true;
        state.waiting.insert(1, asked_about_again());
        assert!(state.send(1).is_none() && state.out.is_empty());
        assert!(!is_answered(&mut state, overloaded()), "the second copy may be carried out");
        state.is_behind = false;
        assert!(state.send(1).is_none() && !state.out.is_empty());
        assert!(is_answered(&mut state, overloaded()));
    }

    /// Ids of the requests that are over when the server gives the client this name.
    fn stranded(state: &mut State, name: ClientId) -> Vec<Ticket> {
        let ticket = |over: Over| if let Answer::Silence(ticket) = over.answer { Some(ticket) } else { None };
        state.renamed(name).into_iter().map(|over| ticket(over).unwrap()).collect()
    }

    #[test]
    fn commit_is_not_sent_under_another_name_than_its_first_copy() {
        let mut state = connected();
        state.waiting.insert(1, waiting(1));
        assert!(state.send(1).is_none());
        state.forget_connection();
        // Neither is one that `ask_again` repeats while there is no connection.
        state.waiting.insert(2, asked_about_again());
        state.waiting.insert(3, waiting(1));
        state.waiting.insert(4, Waiting { ask: Ask::Snapshot, ..asked_about_again() });
        assert_eq!(stranded(&mut state, NAME), []);
        let other = ClientId { incarnation: Incarnation(2), ..NAME };
        assert_eq!(stranded(&mut state, other), [1, 2].map(|id| Ticket { client: NAME, id }));
        assert!(state.send_all(|_| true).is_empty());
        assert_eq!(ids(&state.out), [3, 4]);
    }

    #[test]
    fn requests_beyond_what_may_be_unsent_are_sent_later_in_their_order() {
        let mut state = connected();
        for id in 1..=40 {
            // The last ones are small: they would fit, and must not overtake.
            state.waiting.insert(id, waiting(if id <= 30 { 1 << 20 } else { 1 }));
            assert!(state.send(id).is_none());
        }
        assert!(state.out.len() <= UNSENT_LIMIT_BYTES + (2 << 20), "{}", state.out.len());
        let mut sent = Vec::new();
        while !state.out.is_empty() {
            sent.extend(ids(&std::mem::take(&mut state.out)));
            assert!(state.catch_up().is_empty());
        }
        assert_eq!(sent, (1..=40).collect::<Vec<u64>>());
    }
}
