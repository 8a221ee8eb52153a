//! Hooks: something happens when a client reaches a step for the nth time.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use mongotx::{Step, StepHook};
use tokio::sync::Semaphore;

type Action = Box<dyn Fn(Step, usize) -> BoxFuture<'static, ()> + Send + Sync>;

/// Counts how often each step is reached, and does something each time.
pub(crate) struct Hook {
    counts: Mutex<HashMap<Step, usize>>,
    action: Action,
}

impl StepHook for Hook {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let nth = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(step).or_default();
            *count += 1;
            *count
        };
        (self.action)(step, nth)
    }
}

impl Hook {
    fn new(action: impl Fn(Step, usize) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { counts: Mutex::default(), action: Box::new(action) })
    }

    /// A hook that only counts.
    pub(crate) fn counting() -> Arc<Self> {
        Self::new(|_, _| Box::pin(ready(())))
    }

    /// Calls `action`, which may end the process or stop it, at the nth time of `step`.
    pub(crate) fn calling(at: Step, nth: usize, action: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Self::new(move |step, count| {
            if (step, count) == (at, nth) {
                action();
            }
            Box::pin(ready(()))
        })
    }

    /// Stands still for a moment, each time at `at`: rivals come in between more often.
    pub(crate) fn pausing(at: Step, pause: Duration) -> Arc<Self> {
        Self::new(move |step, _| match step == at {
            true => Box::pin(tokio::time::sleep(pause)),
            false => Box::pin(ready(())),
        })
    }

    pub(crate) fn count(&self, step: Step) -> usize {
        self.counts.lock().unwrap().get(&step).copied().unwrap_or(0)
    }
}

/// One hook after the other.
pub(crate) struct Both(pub(crate) Arc<Hook>, pub(crate) Arc<Hook>);

impl StepHook for Both {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let (first, second) = (self.0.at(step), self.1.at(step));
        Box::pin(async move {
            first.await;
            second.await;
        })
    }
}

/// Holds a client at a step until the test lets it go on.
#[derive(Clone)]
pub(crate) struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    /// Closed at the nth time of `at`; from the nth time on, if `and_later`.
    pub(crate) fn at(at: Step, nth: usize, and_later: bool) -> (Self, Arc<Hook>) {
        let gate = Self { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) };
        let inner = gate.clone();
        let hook = Hook::new(move |step, count| {
            let here = step == at && (count == nth || and_later && count > nth);
            let gate = inner.clone();
            Box::pin(async move {
                if here {
                    gate.reached.add_permits(1);
                    drop(gate.open.acquire().await);
                }
            })
        });
        (gate, hook)
    }

    /// Waits until a client stands here; at most once for each that does.
    pub(crate) async fn reached(&self) {
        let reached = tokio::time::timeout(super::LIMIT, self.reached.acquire()).await;
        reached.expect("the step was not reached in time").unwrap().forget();
    }

    /// Lets all callers pass from now on.
    pub(crate) fn open(&self) {
        self.open.add_permits(1_000);
    }
}
