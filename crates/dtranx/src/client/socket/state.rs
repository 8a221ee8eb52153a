//! Requests that wait at a link, and bytes to be written. Nothing here waits or calls back: see
//! [`Over`].

use std::collections::{BTreeMap, btree_map::Entry};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::stores::Stores;
use crate::client::{Answer, Done, Ticket};
use crate::core::{ClientId, CommitAnswer, MessageId, Refusal, RequestId, StoreId};
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
    /// The store that the server had at the last connection.
    pub(super) store: Option<StoreId>,
    pub(super) next_id: u64,
    /// Largest number of the store's transactions that an answer has named.
    pub(super) heard: u64,
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
    /// Store that the copy was sent to.
    store: Option<StoreId>,
    /// Value of [`State::heard`] before the first copy was sent.
    above: u64,
    /// Time at which it was sent, while it waits here.
    pub(super) sent: Option<Instant>,
    pub(super) first: FirstCopy,
    /// It commits what was read before it came here.
    pub(super) has_read: bool,
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
    /// A request that was not sent.
    pub(super) fn new(ask: Ask, until: Instant, done: Done) -> Self {
        let first = FirstCopy::Gone;
        Self { ask, done, until, name: None, store: None, above: 0, sent: None, first, has_read: false }
    }

    /// A request that `ask_again` repeats. The first copy may still be refused, and further copies
    /// may have been sent behind it.
    pub(super) fn again(ticket: Ticket, ask: Ask, until: Instant, done: Done) -> Self {
        let Ticket { client, above, store, .. } = ticket;
        let first = FirstCopy::Followed;
        Self { ask, done, until, name: Some(client), store, above, sent: None, first, has_read: false }
    }

    pub(super) fn over(self, id: u64, why: &str) -> Over {
        let silence = |client, above| Answer::Silence(Ticket { client, id, above, store: self.store });
        let answer = match (&self.ask, self.name) {
            // The name is that of the commit, and not the one under which the question was sent.
            (Ask::RequestOutcome { request, above }, _) => silence(request.client, *above),
            (_, Some(client)) => silence(client, self.above),
            (_, None) if why.is_empty() => Answer::NotCarriedOut("it could not be reached in time".to_owned()),
            (_, None) => Answer::NotCarriedOut(format!("it could not be reached: {why}")),
        };
        Over { done: self.done, answer }
    }

    /// Turns a commit that was sent under another name than this one into the question what became
    /// of it: a server that does not know the name would carry it out once more.
    pub(super) fn ask_after(&mut self, id: u64, name: ClientId) {
        let Some(client) = self.name.filter(|before| *before != name && self.ask.is_commit()) else { return };
        let request = RequestId { client, message: MessageId(id) };
        self.ask = Ask::RequestOutcome { request, above: self.above };
        (self.name, self.sent, self.first) = (None, None, FirstCopy::Gone);
    }

    /// Returns true if it waits for what became of a commit that may have been carried out.
    fn is_of_sent_commit(&self) -> bool {
        self.ask.is_request_outcome() || self.ask.is_commit() && self.name.is_some()
    }

    /// Is the question what became of a commit refused for want of room? That says nothing about
    /// the commit: the question is sent again soon.
    fn is_put_off(&mut self, reply: &Reply) -> bool {
        let is_put_off = self.ask.is_request_outcome() && matches!(reply, Reply::Refused(_));
        if is_put_off {
            self.sent = None;
        }
        is_put_off
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

    fn note_sent(&mut self, name: ClientId, store: Option<StoreId>, heard: u64) {
        if self.name.is_none() {
            self.above = heard;
        }
        self.store = store;
        self.first = match self.first {
            FirstCopy::Gone if self.name.is_some() => FirstCopy::Gone,
            FirstCopy::Gone => FirstCopy::Alone,
            FirstCopy::Alone | FirstCopy::Followed => FirstCopy::Followed,
        };
        (self.name, self.sent) = (Some(name), Some(Instant::now()));
    }
}

/// The answer to a commit of what was read in stores that are gone.
pub(super) fn stale() -> Reply {
    Reply::Commit(CommitAnswer::Refused(Refusal::Stale { current: Vec::new(), kept: None }))
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
                waiting.note_sent(name, self.store, self.heard);
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
        let asked = waiting.get_mut();
        if asked.is_of_first_copy(&response.reply) || asked.is_put_off(&response.reply) {
            return None;
        }
        Some(Over { done: waiting.remove().done, answer: Answer::Reply(response.reply) })
    }

    /// Returns true if a server gives a name of an earlier life than that of commits which wait
    /// here: it is a leader of a group that others have replaced, and does not know it yet. The
    /// name under which they were sent would be lost with that one.
    pub(super) fn is_outdated(&self, name: ClientId, store: StoreId) -> bool {
        let is_earlier = self.name.is_some_and(|before| name.incarnation < before.incarnation);
        is_earlier && self.store == Some(store) && self.waiting.values().any(Waiting::is_of_sent_commit)
    }

    /// Notes the store that the server has. If it is another one than before, its numbers begin
    /// anew. Commits of what was read before, and that were not sent, are refused; of those that
    /// were sent it knows nothing, or takes them for others.
    pub(super) fn met_store(&mut self, store: StoreId, stores: &Stores) -> Vec<Over> {
        if self.store.replace(store).is_none_or(|before| before == store) {
            return Vec::new();
        }
        self.heard = 0;
        stores.replaced();
        let is_over = |waiting: &Waiting| waiting.has_read || waiting.is_of_sent_commit();
        let ids: Vec<u64> = self.waiting.iter().filter(|(_, waiting)| is_over(waiting)).map(|(id, _)| *id).collect();
        let over = |id: u64| match self.waiting.remove(&id)? {
            waiting if waiting.is_of_sent_commit() => Some(waiting.over(id, "it has another store")),
            waiting => Some(Over { done: waiting.done, answer: Answer::Reply(stale()) }),
        };
        ids.into_iter().filter_map(over).collect()
    }

    /// Takes over the name that the server gave, and asks what became of commits that were sent
    /// under another one.
    pub(super) fn renamed(&mut self, name: ClientId) {
        self.forget_connection();
        self.name = Some(name);
        for (id, waiting) in &mut self.waiting {
            waiting.ask_after(*id, name);
        }
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
        Waiting::new(ask, Instant::now() + Duration::from_secs(600), Box::new(drop))
    }

    fn requests(mut bytes: &[u8]) -> Vec<Request> {
        let mut requests = Vec::new();
        while let Some((payload, taken)) = next_frame(bytes).unwrap() {
            requests.push(decode::<Request>(payload).unwrap());
            bytes = &bytes[taken..];
        }
        requests
    }

    fn ids(bytes: &[u8]) -> Vec<u64> {
        requests(bytes).into_iter().map(|request| request.id).collect()
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
        Waiting::again(Ticket { client: NAME, id: 1, above: 3, store: Some(STORE) }, ask, until, done)
    }

    const STORE: StoreId = StoreId([1; 16]);
    const OTHER_STORE: StoreId = StoreId([2; 16]);

    fn connected() -> State {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut state = State::new();
        state.stream = Some(Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()));
        (state.name, state.store) = (Some(NAME), Some(STORE));
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
        state.renamed(NAME);
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

    /// The number of copies that were sent before `ask_again` is not known any more.
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

    const OTHER: ClientId = ClientId { incarnation: Incarnation(2), ..NAME };

    fn ask_outcome(id: u64, above: u64) -> Ask {
        Ask::RequestOutcome { request: RequestId { client: NAME, message: MessageId(id) }, above }
    }

    #[test]
    fn commit_is_not_sent_under_another_name_but_asked_after() {
        let mut state = connected();
        state.heard = 7;
        state.waiting.insert(1, waiting(1));
        assert!(state.send(1).is_none());
        state.heard = 9;
        state.renamed(NAME);
        // Neither is one that `ask_again` repeats while there is no connection.
        state.waiting.insert(2, asked_about_again());
        state.waiting.insert(3, waiting(1));
        state.waiting.insert(4, Waiting { ask: Ask::Snapshot, ..asked_about_again() });
        assert!(state.send(1).is_none() && requests(&state.out)[0].ask.is_commit(), "the name is the same");
        state.renamed(OTHER);
        assert!(state.send_all(|_| true).is_empty());
        let sent = requests(&state.out);
        assert_eq!(ids(&state.out), [1, 2, 3, 4]);
        assert_eq!([&sent[0].ask, &sent[1].ask], [&ask_outcome(1, 7), &ask_outcome(2, 3)]);
        assert!(sent[2].ask.is_commit() && sent[3].ask == Ask::Snapshot);
        // The question is the same under a third name.
        state.renamed(ClientId { incarnation: Incarnation(3), ..NAME });
        assert!(state.send(1).is_none());
        assert_eq!(requests(&state.out)[0].ask, ask_outcome(1, 7));
    }

    /// A link whose commit, of number 1, is asked after.
    fn asking() -> State {
        let mut state = connected();
        state.heard = 7;
        state.waiting.insert(1, waiting(1));
        assert!(state.send(1).is_none());
        state.renamed(OTHER);
        assert!(state.send(1).is_none());
        state
    }

    #[test]
    fn question_without_an_answer_leaves_the_commit_unknown_under_its_own_name() {
        let over = asking().waiting.remove(&1).unwrap().over(1, "late");
        let Answer::Silence(ticket) = over.answer else { panic!("{:?}", over.answer) };
        assert_eq!(ticket, Ticket { client: NAME, id: 1, above: 7, store: Some(STORE) });
        // It is so before the question was sent, too.
        let mut state = connected();
        state.waiting.insert(1, asked_about_again());
        state.renamed(OTHER);
        let over = state.waiting.remove(&1).unwrap().over(1, "late");
        assert!(
            matches!(over.answer, Answer::Silence(Ticket { client: NAME, id: 1, above: 3, .. })),
            "{:?}",
            over.answer
        );
    }

    #[test]
    fn refusal_of_a_question_for_want_of_room_is_no_answer() {
        let mut state = asking();
        let put_off = Response { id: 1, reply: Reply::Refused("the server is at its limit".to_owned()) };
        assert!(state.answered(put_off).is_none() && state.waiting[&1].sent.is_none());
        assert!(is_answered(&mut state, CommitAnswer::Refused(Refusal::Restarted { server: ServerId(1) })));
    }

    #[test]
    fn name_of_an_earlier_life_is_not_taken_while_a_commit_waits_for_a_later_one() {
        let earlier = ClientId { incarnation: Incarnation(0), ..NAME };
        let mut state = connected();
        state.waiting.insert(1, waiting(1));
        assert!(!state.is_outdated(earlier, STORE), "it was not sent");
        assert!(state.send(1).is_none());
        assert!(state.is_outdated(earlier, STORE) && !state.is_outdated(earlier, OTHER_STORE));
        assert!(!state.is_outdated(OTHER, STORE) && !state.is_outdated(NAME, STORE));
        state.renamed(OTHER);
        assert!(state.is_outdated(NAME, STORE), "it is asked after");
        state.waiting.clear();
        assert!(!state.is_outdated(earlier, STORE));
    }

    #[test]
    fn numbers_of_another_store_are_forgotten() {
        let (mut state, stores) = (State::new(), Stores::default());
        let mut heard_after = |store| {
            state.heard = 7;
            assert!(state.met_store(StoreId([store; 16]), &stores).is_empty());
            state.heard
        };
        assert_eq!([1, 1, 2, 2, 1].map(&mut heard_after), [7, 7, 0, 7, 0]);
    }

    #[test]
    fn commits_of_another_stores_time_are_refused_or_unknown() {
        let (mut state, stores) = (connected(), Stores::default());
        let generation = stores.generation();
        state.waiting.insert(1, Waiting { has_read: true, ..waiting(1) });
        assert!(state.send(1).is_none(), "it is sent to the first store");
        state.waiting.insert(2, Waiting { has_read: true, ..waiting(1) });
        state.waiting.insert(3, waiting(1));
        state.waiting.insert(4, asked_about_again());
        assert!(state.met_store(STORE, &stores).is_empty() && stores.generation() == generation);
        let over = state.met_store(OTHER_STORE, &stores);
        let answers: Vec<Answer> = over.into_iter().map(|over| over.answer).collect();
        let [Answer::Silence(sent), Answer::Reply(reply), Answer::Silence(again)] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!([sent, again].map(|ticket| (ticket.id, ticket.store)), [(1, Some(STORE)), (4, Some(STORE))]);
        assert_eq!(reply, &stale());
        assert_eq!(state.waiting.keys().collect::<Vec<_>>(), [&3], "it has read nothing, and was not sent");
        assert!(stores.generation() > generation);
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
