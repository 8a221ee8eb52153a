//! The named steps of the protocol, at which tests kill, pause or hold a client. They are public
//! with the feature `testing`, and called then only.
#![cfg_attr(not(feature = "testing"), allow(unreachable_pub, reason = "public with the feature `testing`"))]

#[cfg(feature = "testing")]
use std::sync::Arc;

#[cfg(feature = "testing")]
use futures_util::future::BoxFuture;

/// A place between two commands. `Before…` is reached when the command has not been sent, `After…`
/// when its answer has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Step {
    BeforeRegister,
    AfterRegister,
    BeforeLock,
    AfterLock,
    BeforeReadLock,
    AfterReadLock,
    BeforeStatus,
    BeforeValidation,
    AfterValidation,
    BeforeQuiet,
    AfterQuiet,
    BeforeStamp,
    AfterStamp,
    BeforeDecision,
    AfterDecision,
    BeforeFinish,
    AfterFinish,
    BeforeUndo,
    AfterUndo,
    BeforeFence,
    AfterFence,
    BeforeRepair,
    AfterRepair,
    BeforeRetire,
    AfterRetire,
    BeforeFreeze,
    BeforeRename,
    BeforeSettledQuery,
    BeforeQueryBeside,
    AfterQueryBeside,
}

#[cfg(feature = "testing")]
impl Step {
    /// Steps of a transaction's life, in their order. (The other steps are those of renaming a
    /// collection, and of queries.)
    pub const ALL: [Self; 25] = [
        Self::BeforeRegister,
        Self::AfterRegister,
        Self::BeforeLock,
        Self::AfterLock,
        Self::BeforeReadLock,
        Self::AfterReadLock,
        Self::BeforeStatus,
        Self::BeforeValidation,
        Self::AfterValidation,
        Self::BeforeQuiet,
        Self::AfterQuiet,
        Self::BeforeStamp,
        Self::AfterStamp,
        Self::BeforeDecision,
        Self::AfterDecision,
        Self::BeforeFinish,
        Self::AfterFinish,
        Self::BeforeUndo,
        Self::AfterUndo,
        Self::BeforeFence,
        Self::AfterFence,
        Self::BeforeRepair,
        Self::AfterRepair,
        Self::BeforeRetire,
        Self::AfterRetire,
    ];

    /// The step with this name, as `{:?}` prints it.
    ///
    /// ```
    /// use mongotx::Step;
    ///
    /// assert_eq!(Step::from_name("AfterDecision"), Some(Step::AfterDecision));
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| format!("{step:?}") == name)
    }
}

/// The function that a client calls at its steps: none without the feature `testing`.
#[derive(Clone, Default)]
pub(crate) struct Hook {
    #[cfg(feature = "testing")]
    called: Option<Arc<dyn StepHook>>,
}

impl Hook {
    #[cfg(feature = "testing")]
    pub(crate) fn new(called: Option<Arc<dyn StepHook>>) -> Self {
        Self { called }
    }

    /// The client is at this step; it goes on when what is called has ended.
    #[cfg(feature = "testing")]
    pub(crate) async fn at(&self, step: Step) {
        if let Some(called) = &self.called {
            called.at(step).await;
        }
    }

    /// The client is at this step.
    #[cfg(not(feature = "testing"))]
    pub(crate) async fn at(&self, _: Step) {}
}

/// Something that happens at the steps of a client: a process that ends itself, a test that holds
/// the client there.
#[cfg(feature = "testing")]
pub trait StepHook: Send + Sync {
    /// The client goes on when the future is done.
    fn at(&self, step: Step) -> BoxFuture<'static, ()>;
}
