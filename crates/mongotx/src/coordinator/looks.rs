//! Looks at the change stamps: shared by those who need one at the same time, and remembered.
//!
//! Who needs a look while another is under way waits for the next one, with everybody else who
//! comes meanwhile: a look that is already under way may have passed by what they have to see. The
//! last one is remembered. With what the own record has acknowledged since, it is a first look as
//! good as a new one, and costs no command.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use super::{
    Core,
    changes::{ChangeLook, Changes, SameServer},
    server::Server,
    tag::Tags,
    transaction::Transaction,
    txlog::TxLog,
};
use crate::error::Result;

/// How old a remembered look may be where other clients change the same collections: an older one
/// has probably missed something.
const RECENT: Duration = Duration::from_millis(5);

/// How long a look waits for the one before it.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

type SharedLook = Shared<BoxFuture<'static, Result<Arc<ChangeLook>>>>;

#[derive(Default)]
pub(crate) struct Looks {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Number of looks that have begun.
    begun: u64,
    /// Under way: the last one that has begun.
    running: Option<SharedLook>,
    /// About to begin when that one has ended.
    next: Option<SharedLook>,
    last: Option<Arc<ChangeLook>>,
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Nothing panics while it is held.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Looks {
    /// A look that has not begun yet. Each caller that waits for it drives it, so that it ends
    /// although the future of another one is dropped.
    fn next(&self, server: &Arc<Server>, log: &Arc<dyn TxLog>) -> SharedLook {
        let mut state = locked(&self.state);
        if let Some(next) = &state.next {
            return next.clone();
        }
        let (before, home) = (state.running.clone(), Arc::downgrade(&self.state));
        let next = look_after(before, home, Arc::clone(server), Arc::clone(log)).boxed().shared();
        state.next = Some(next.clone());
        next
    }

    fn last(&self) -> Option<Arc<ChangeLook>> {
        locked(&self.state).last.clone()
    }
}

async fn look_after(
    before: Option<SharedLook>,
    home: Weak<Mutex<State>>,
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
) -> Result<Arc<ChangeLook>> {
    if let Some(before) = before {
        // Its answer is for the callers that asked before, and so is its error. A connection that
        // swallows it stops no other caller.
        let _ = tokio::time::timeout(LONGEST_WAIT, before).await;
    }
    let (mut number, mut last) = (0, None);
    if let Some(home) = home.upgrade() {
        let mut state = locked(&home);
        state.running = state.next.take();
        state.begun += 1;
        (number, last) = (state.begun, state.last.clone());
    }
    let (asked, connections, by_majority) = (Instant::now(), connections(&server, &*log), server.nodes.are_several());
    let closed = last.map(|last| last.closed().clone()).unwrap_or_default();
    let changes = log.changes(&closed).await;
    let look = changes.map(|told| {
        let later = self::connections(&server, &*log);
        Arc::new(ChangeLook::new(asked, [connections, later], by_majority, &closed, told))
    });
    if let Some(home) = home.upgrade() {
        let mut state = locked(&home);
        if state.begun == number {
            state.running = None;
        }
        if let Ok(look) = &look
            && state.last.as_ref().is_none_or(|last| !last.is_newer_than(look))
        {
            state.last = Some(Arc::clone(look));
        }
    }
    look
}

fn connections(server: &Server, log: &dyn TxLog) -> (u64, u64) {
    (server.connections(), log.epoch())
}

/// The look before what is asked again.
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

impl Core {
    /// Looks at the change stamps of all records.
    pub(crate) async fn look_at_changes(&self) -> Result<Arc<ChangeLook>> {
        self.looks.next(&self.server, &self.log).await
    }

    /// A look at these change stamps: the last one, if it will do, or a new one.
    pub(crate) async fn first_look(&self, tx: &Transaction, tags: &Tags) -> Result<FirstLook> {
        let (own, several) = (self.log.own_changes(tags), self.server.nodes.are_several());
        // Where several servers keep the data, only a look of its own shows a transaction without
        // locks that it has read the latest.
        if !(several && tx.id().is_none())
            && let Some(look) = self.looks.last()
            && self.is_still_good(&look, &own, tags)
        {
            // The look may be older than the transaction's first lock, from which on the commit's
            // evidence shows restarts.
            let same = if several { SameServer::Elsewhere } else { SameServer::Connections };
            return Ok(FirstLook { look, own, same });
        }
        let look = self.look_at_changes().await?;
        Ok(self.as_first(look, tx))
    }

    /// The later look is the first one of the next round.
    pub(crate) fn as_first(&self, look: Arc<ChangeLook>, tx: &Transaction) -> FirstLook {
        FirstLook { look, own: Changes::default(), same: self.same_server(tx) }
    }

    /// Could the remembered look agree with a later one?
    fn is_still_good(&self, look: &ChangeLook, own: &Changes, tags: &Tags) -> bool {
        let same_server = match self.server.nodes.are_several() {
            true => look.is_by_majority(),
            false => look.is_of(connections(&self.server, &*self.log)),
        };
        same_server && (look.age() < RECENT || look.is_silent(own, tags))
    }
}
