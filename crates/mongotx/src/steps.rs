//! The named steps of the protocol, at which tests kill, pause or hold a client.

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
}

impl Step {
    /// Steps of a transaction's life, in their order. (The other steps are those of renaming a
    /// collection.)
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

/// Something that happens at the steps of a client: a process that ends itself, a test that holds
/// the client there.
pub trait StepHook: Send + Sync {
    /// The client goes on when the future is done.
    fn at(&self, step: Step) -> BoxFuture<'static, ()>;
}
