//! Looks at the change stamps: shared by transactions that need one at the same time, and
//! remembered.
//!
//! A transaction that needs a look while another is under way waits for the next one, with all
//! others that come meanwhile: a look that is already under way may have passed by what they have
//! to see. If one of them holds what other transactions of this client wait for when it comes, the
//! next look begins at once. Such a transaction sends its look behind the reads of its validation,
//! in the same write, where all of them are sent so: the server begins the look when it has
//! answered them. That look is shared with no other transaction. The last look is remembered. With
//! what the own record has acknowledged since, it is a first look as good as a new one, and costs
//! no command.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use bson::{Document, doc};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::{runtime::Handle, sync::Notify};

use crate::{
    coordinator::{
        catalog::Catalog,
        log::{records::scan_records, txlog::TxLog},
        server::{Server, live::LeadingWrite, stream::Stream},
        stamps::{
            change_look::{ChangeLook, SameServer},
            changes::{Changes, RecordScan},
            moment::Moment,
            tag::Tags,
        },
        transaction::Transaction,
    },
    error::Result,
};

/// Highest age of a remembered look where other clients change the same collections: an older one
/// has probably missed something.
const RECENT: Duration = Duration::from_millis(5);

/// Looks that are under way at a time, but for those that have waited for [`LONGEST_WAIT`].
const MOST_AT_ONCE: usize = 4;

/// Time that a look waits for the one before it.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

type SharedLook = Shared<BoxFuture<'static, Result<Arc<ChangeLook>>>>;

/// Looks at the change stamps of all records, for all transactions of this client.
pub(crate) struct Looks {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    catalog: Arc<Catalog>,
    state: Arc<Mutex<State>>,
}

/// The look that is under way, the next one, and the last that was answered.
#[derive(Default)]
struct State {
    /// Number of looks that have begun.
    begun: u64,
    /// The last look that has begun, while it is under way.
    running: Option<SharedLook>,
    /// The look that is about to begin when that one has ended, or at once.
    next: Option<NextLook>,
    last: Option<Arc<ChangeLook>>,
    /// Has a copy in each look that is under way.
    under_way: Arc<()>,
}

impl State {
    fn keep(&mut self, look: &Arc<ChangeLook>) {
        if self.last.as_ref().is_none_or(|last| !last.is_newer_than(look)) {
            self.last = Some(Arc::clone(look));
        }
    }
}

/// A look that waits for the one before it.
#[derive(Clone)]
struct NextLook {
    look: SharedLook,
    /// Notified when it is to begin without waiting.
    at_once: Arc<Notify>,
}

/// One caller's share in a look. A caller that goes away in the middle of it hands its share to a
/// task: the wake-up that came to this caller was for all, and a [`Shared`] future passes it on
/// only when the one that was woken polls again.
struct LookShare {
    /// `None` when it has been answered.
    look: Option<SharedLook>,
    is_polled: bool,
}

impl LookShare {
    fn new(look: SharedLook) -> Self {
        Self { look: Some(look), is_polled: false }
    }
}

impl Future for LookShare {
    type Output = Result<Arc<ChangeLook>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.is_polled = true;
        let Some(look) = &mut self.look else { return Poll::Pending };
        let answer = look.poll_unpin(context);
        if answer.is_ready() {
            self.look = None;
        }
        answer
    }
}

impl Drop for LookShare {
    fn drop(&mut self) {
        if let Some(look) = self.look.take().filter(|_| self.is_polled)
            && let Ok(runtime) = Handle::try_current()
        {
            // Its answer is remembered; no caller here waits for it.
            runtime.spawn(look.map(drop));
        }
    }
}

/// Time at which a look begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookStart {
    /// The end of the look that is under way: transactions that come meanwhile share the next one.
    InTurn,
    /// Now: others wait for the transaction that needs it.
    AtOnce,
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Nothing panics while it is held.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Looks {
    pub(crate) fn new(server: Arc<Server>, log: Arc<dyn TxLog>, catalog: Arc<Catalog>) -> Self {
        Self { server, log, catalog, state: Arc::default() }
    }

    /// A look that has not begun yet. Each caller that waits for it drives it, so that it ends
    /// although the future of another one is dropped.
    fn next(&self, begin: LookStart) -> LookShare {
        let mut guard = locked(&self.state);
        let state = &mut *guard;
        let (before, home) = (state.running.clone(), Arc::downgrade(&self.state));
        let next = state.next.get_or_insert_with(|| {
            let at_once = Arc::<Notify>::default();
            let turn = turn_after(before, Arc::clone(&at_once));
            let (server, log, catalog) = (Arc::clone(&self.server), Arc::clone(&self.log), Arc::clone(&self.catalog));
            let look = look_after(turn, home, server, log, catalog).boxed().shared();
            NextLook { look, at_once }
        });
        if begin == LookStart::AtOnce && Arc::strong_count(&state.under_way) <= MOST_AT_ONCE {
            // Kept for it if it is not polled yet.
            next.at_once.notify_one();
        }
        LookShare::new(next.look.clone())
    }

    /// Remembers a look, unless a newer one is.
    fn keep(&self, look: &Arc<ChangeLook>) {
        outdate_by(look, &self.catalog);
        locked(&self.state).keep(look);
    }

    /// The last one that was answered.
    pub(crate) fn last(&self) -> Option<Arc<ChangeLook>> {
        locked(&self.state).last.clone()
    }
}

/// Ends when a look may begin: the one before it has ended, or takes long, or there is no time to
/// wait for it.
async fn turn_after(before: Option<SharedLook>, at_once: Arc<Notify>) {
    let Some(before) = before else { return };
    tokio::select! {
        // The earlier callers get its answer, or its error. This one waits for a limited time: the
        // connection may be broken and never answer.
        _ = tokio::time::timeout(LONGEST_WAIT, LookShare::new(before)) => {}
        () = at_once.notified() => {}
    }
}

async fn look_after(
    turn: impl Future<Output = ()>,
    home: Weak<Mutex<State>>,
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
    catalog: Arc<Catalog>,
) -> Result<Arc<ChangeLook>> {
    turn.await;
    let (mut number, mut last, mut _under_way) = (0, None, None);
    if let Some(home) = home.upgrade() {
        let mut state = locked(&home);
        state.running = state.next.take().map(|next| next.look);
        state.begun += 1;
        (number, last, _under_way) = (state.begun, state.last.clone(), Some(Arc::clone(&state.under_way)));
    }
    let (asked, connections, by_majority) = (Moment::now(), connections(&server, &*log), server.nodes.are_several());
    let closed = last.map(|last| last.closed().clone()).unwrap_or_default();
    let changes = log.changes(&closed).await;
    let look = changes.map(|scan| {
        let later = self::connections(&server, &*log);
        Arc::new(ChangeLook::new(asked, [connections, later], by_majority, &closed, scan))
    });
    look.iter().for_each(|look| outdate_by(look, &catalog));
    if let Some(home) = home.upgrade() {
        let mut state = locked(&home);
        if state.begun == number {
            state.running = None;
        }
        if let Ok(look) = &look {
            state.keep(look);
        }
    }
    look
}

/// Before a look is remembered, and transactions begin with it: under the notices that it shows as
/// over others may have made and dropped indexes.
fn outdate_by(look: &ChangeLook, catalog: &Catalog) {
    look.over_since().into_iter().for_each(|at| catalog.outdate(at));
}

fn connections(server: &Server, log: &dyn TxLog) -> (u64, u64) {
    (server.connections(), log.epoch())
}

/// The look before the reads of a validation.
pub(crate) struct FirstLook {
    look: Arc<ChangeLook>,
    /// Stamps that the client's own records have acknowledged since.
    own: Changes,
    same: SameServer,
}

impl FirstLook {
    /// The stamps of these names that transactions have set between that look and the sending of
    /// the later one. `None`: that cannot be said.
    pub(crate) fn changed_at(&self, later: &ChangeLook, tags: &Tags) -> Option<Tags> {
        self.look.changed_at(later, &self.own, tags, self.same)
    }
}

/// Returns true if the server has sent all of these answers.
fn are_whole(answers: &[Result<Stream>]) -> bool {
    answers.iter().all(|answer| answer.as_ref().is_ok_and(Stream::has_come))
}

/// Result of a look, if the server has sent all of it.
async fn scan_at_once(look: Result<Stream>) -> Result<Option<RecordScan>> {
    let (mut look, mut found) = (look?, Vec::new());
    if !look.has_come() {
        return Ok(None);
    }
    while let Some(record) = look.next().await? {
        found.push(record);
    }
    scan_records(&found).map(Some)
}

/// Time at which a look for this transaction begins.
pub(crate) fn begin_for(tx: &Transaction) -> LookStart {
    match tx.is_wanted() {
        true => LookStart::AtOnce,
        false => LookStart::InTurn,
    }
}

impl Looks {
    /// Looks at the change stamps of all records.
    pub(crate) async fn look_at_changes(&self, begin: LookStart) -> Result<Arc<ChangeLook>> {
        self.next(begin).await
    }

    /// Queries, and a look that begins when they have been answered, in one write; with a prepared
    /// write before all of them, if there is one. The look is `None` if it failed, or if one of the
    /// answers came in several parts. `None`: they cannot be sent so, and nothing was.
    pub(crate) async fn ask_before_look(
        &self,
        queries: &[(&str, &Document)],
        leading: Option<&mut LeadingWrite<'_>>,
    ) -> Result<Option<(Vec<Result<Stream>>, Option<Arc<ChangeLook>>)>> {
        let closed = self.last().map(|last| last.closed().clone()).unwrap_or_default();
        let by_majority = self.server.nodes.are_several();
        let Some((home, mut find)) = self.log.ask_for_changes(&closed) else { return Ok(None) };
        if leading.is_some() {
            find.insert("readConcern", doc! {"level": "local"});
        }
        let all: Vec<(&str, &Document)> = queries.iter().copied().chain([(home, &find)]).collect();
        let (asked, before) = (Moment::now(), connections(&self.server, &*self.log));
        let answers = match leading {
            Some(leading) => self.server.prepare_and_ask(leading, &all).await?,
            None => self.server.cursors_together(&all).await?,
        };
        let Some(mut answers) = answers else { return Ok(None) };
        let after = connections(&self.server, &*self.log);
        let scan = match answers.pop() {
            Some(look) if are_whole(&answers) => scan_at_once(look).await,
            _ => Ok(None),
        };
        let scan = scan.unwrap_or_else(|error| {
            tracing::debug!(%error, "a look behind queries failed");
            None
        });
        let look = scan.map(|scan| Arc::new(ChangeLook::new(asked, [before, after], by_majority, &closed, scan)));
        look.iter().for_each(|look| self.keep(look));
        Ok(Some((answers, look)))
    }

    /// A look at these change stamps: the last one, if it will do, or a new one.
    pub(crate) async fn first_look(&self, tx: &Transaction, tags: &Tags) -> Result<FirstLook> {
        if let Some(look) = self.remembered_look(tx, tags) {
            return Ok(look);
        }
        let look = self.look_at_changes(begin_for(tx)).await?;
        Ok(self.as_first(look, tx))
    }

    /// The last look, if it will do as a first one.
    pub(crate) fn remembered_look(&self, tx: &Transaction, tags: &Tags) -> Option<FirstLook> {
        let (own, several) = (self.log.own_changes(tags), self.server.nodes.are_several());
        // Where several servers keep the data, only a look of its own shows a transaction without
        // locks that it has read the latest.
        if several && tx.id().is_none() {
            return None;
        }
        let look = self.last().filter(|look| self.is_still_good(look, &own, tags))?;
        // The look may be older than the transaction's first lock, from which on the commit's
        // evidence shows restarts.
        let same = if several { SameServer::Elsewhere } else { SameServer::Connections };
        Some(FirstLook { look, own, same })
    }

    /// The later look is the first one of the next round.
    pub(crate) fn as_first(&self, look: Arc<ChangeLook>, tx: &Transaction) -> FirstLook {
        FirstLook { look, own: Changes::default(), same: self.same_server(tx) }
    }

    /// The evidence that looks of this transaction will have of being answered by one server.
    fn same_server(&self, tx: &Transaction) -> SameServer {
        match tx.id().is_some() || self.server.nodes.are_several() {
            true => SameServer::Elsewhere,
            false => SameServer::Connections,
        }
    }

    /// Returns true if the remembered look could agree with a later one.
    fn is_still_good(&self, look: &ChangeLook, own: &Changes, tags: &Tags) -> bool {
        let same_server = match self.server.nodes.are_several() {
            true => look.is_by_majority(),
            false => look.is_of(connections(&self.server, &*self.log)),
        };
        same_server && (look.age() < RECENT || look.is_silent(own, tags))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future;
    use tokio::{sync::oneshot, time::Instant};

    use super::*;

    /// A look that the server does not answer.
    fn unanswered() -> SharedLook {
        future::pending().boxed().shared()
    }

    async fn waited(turn: impl Future<Output = ()>) -> Duration {
        let start = Instant::now();
        turn.await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_waits_for_the_one_before_it_and_not_for_ever() {
        let answered = future::ready(Err(crate::error::Error::new(crate::error::ErrorKind::Unavailable, "none")));
        assert_eq!(waited(turn_after(None, Arc::default())).await, Duration::ZERO);
        assert_eq!(waited(turn_after(Some(answered.boxed().shared()), Arc::default())).await, Duration::ZERO);
        assert_eq!(waited(turn_after(Some(unanswered()), Arc::default())).await, LONGEST_WAIT);
    }

    /// The wake-up reaches a caller that goes away before it polls again, while another one polls.
    #[tokio::test]
    async fn a_caller_that_goes_away_leaves_the_look_to_a_task() {
        let (answer, answered) = oneshot::channel::<()>();
        let look: SharedLook = async move {
            let _ = answered.await;
            Err(crate::error::Error::new(crate::error::ErrorKind::Unavailable, "none"))
        }
        .boxed()
        .shared();
        let mut first = LookShare::new(look.clone());
        assert!(future::poll_immediate(&mut first).await.is_none());
        drop(first);
        answer.send(()).expect("the look goes on");
        // No task polls it here.
        let answered = async {
            while look.peek().is_none() {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), answered).await.is_ok());
        drop(LookShare::new(look));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_others_wait_for_begins_at_once() {
        let at_once = Arc::<Notify>::default();
        let waiting = tokio::spawn(waited(turn_after(Some(unanswered()), Arc::clone(&at_once))));
        tokio::time::sleep(LONGEST_WAIT / 4).await;
        at_once.notify_one();
        assert_eq!(waiting.await.expect("it ends"), LONGEST_WAIT / 4);

        at_once.notify_one();
        assert_eq!(waited(turn_after(Some(unanswered()), at_once)).await, Duration::ZERO, "before it is polled");
    }
}
