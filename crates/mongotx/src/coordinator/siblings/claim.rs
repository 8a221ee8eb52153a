//! A transaction's claim to a document before it is locked: the wait for its turn, and the turn.

use std::time::Duration;

use protocol::TxId;
use tokio::time::{Instant, timeout_at};

use super::{Claims, table::Key};
use crate::{options::Namespace, waiting};

/// Time that a caller that is not ready to wait for a rival waits for one that is about to let go,
/// or has not got the document yet: a few answers of the server. After that the server decides.
pub(super) const MOMENT: Duration = Duration::from_millis(100);

/// Result of a claim on a document.
pub(crate) enum Claimed<'a> {
    /// No other transaction of this client tries it now. The flag is true if this one had to wait
    /// for others.
    Alone(Claim<'a>, bool),
    /// This transaction of the same client holds it and is not about to let go; or waits for the
    /// one that claims.
    Rival(TxId),
    /// The wait took too long: ask the server.
    Ask,
}

/// The right to try to lock a document, which goes to the next transaction when it is dropped.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    key: Option<Key>,
}

impl Claims {
    /// Waits for its turn, at most until `deadline` if the document is held by a transaction that
    /// goes on. A holder that is ending is urged by `hurry`.
    pub(crate) async fn claim(
        &self,
        ns: &Namespace,
        id: Vec<u8>,
        deadline: Instant,
        hurry: impl Fn(TxId),
    ) -> Claimed<'_> {
        let (key, now) = ((ns.clone(), id), Instant::now());
        let moment = now + MOMENT;
        let (last_moment, is_ready_to_wait) = (deadline.max(moment), deadline >= now + MOMENT / 2);
        let (me, table) = (&self.0.owner, || self.0.siblings.lock());
        let queued = match table().enqueue(&key, me) {
            Ok(queued) => queued,
            Err(rival) => return Claimed::Rival(rival),
        };
        // From here on, whatever happens to this future, nothing of it stays in the table.
        let claim = Claim { claims: self, key: Some(key.clone()) };
        let Some(mut turn) = queued else { return Claimed::Alone(claim, false) };
        let ending = table().ends(&key);
        ending.into_iter().for_each(hurry);
        let rival_now = || table().rival_at(&key, me.id);
        let is_committed = || rival_now().is_some_and(|rival| table().is_committed(ns, rival));
        let _shown = rival_now().map(|rival| waiting::show(ns, rival));
        loop {
            let holder = table().stands_still(&key);
            let until = match holder {
                Some(rival) if Instant::now() >= deadline => return Claimed::Rival(rival),
                Some(_) => deadline,
                // One that is committed and takes long to be finished is in nobody's way.
                None if Instant::now() >= moment && is_committed() => return Claimed::Ask,
                // The document goes from one transaction to the next. A caller that was ready to
                // wait has waited, and the server would say the same.
                None if Instant::now() >= last_moment => match rival_now().filter(|_| is_ready_to_wait) {
                    Some(rival) => return Claimed::Rival(rival),
                    None => return Claimed::Ask,
                },
                None => last_moment.min(Instant::now() + MOMENT / 20),
            };
            match timeout_at(until, &mut turn).await {
                Ok(Ok(())) => return Claimed::Alone(claim, true),
                // The table is gone, or this one was left out: cannot be.
                Ok(Err(_)) => return Claimed::Ask,
                Err(_) => {}
            }
        }
    }
}

impl Claim<'_> {
    /// The committed transaction that may still be what others find there.
    pub(crate) fn left(&self) -> Option<TxId> {
        self.claims.0.siblings.lock().entries.get(self.key.as_ref()?)?.left
    }

    /// The server says that the transaction holds it.
    pub(crate) fn keep(mut self) {
        let Some(key) = self.key.take() else { return };
        self.claims.0.siblings.lock().hold(&key);
        self.claims.0.note(key);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.claims.0.siblings.lock().give_up(&key, self.claims.0.owner.id);
        }
    }
}
