//! Settings for every command that a task sends: a comment, no judgement by validators, how long an
//! answer is waited for.
//!
//! An action may send several commands, of several kinds, on ways that depend on what it meets.
//! Both are therefore bound to the task that awaits the action, and are added where commands are
//! sent (`coordinator::server`). What other tasks do for the action, such as writing the decision
//! that it shares with others, is not its own and carries neither.

use std::time::Duration;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, raw::cstr};

tokio::task_local! {
    static COMMENT: Bson;
    static BYPASSES_VALIDATION: bool;
    static LONGEST_ANSWER: Duration;
}

/// Awaits `work` with `comment` in every command that it sends to the server, where the profiler,
/// the log and `currentOp` show it.
///
/// A command that has a comment of its own keeps it. Commands that go on without the caller carry
/// none: decisions, which several transactions share, and what finishes documents after a commit.
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client, accounts);
/// mongotx::with_comment("nightly report", accounts.insert_one(&doc! {"_id": 1})).await?;
/// assert_eq!(accounts.count_documents(doc! {}).await?, 1);
/// # Ok(()) }
/// ```
pub async fn with_comment<F: IntoFuture>(comment: impl Into<Bson>, work: F) -> F::Output {
    COMMENT.scope(comment.into(), work.into_future()).await
}

/// Awaits `work` without the judgement of validators (`bypassDocumentValidation`): documents that
/// it writes may break them.
///
/// In a transaction this holds for the statements in `work` only. What they have written is
/// finished at the commit as it is; a later statement that changes such a document is judged.
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// # local_mongod::example!(client);
/// # let bank = client.database("bank");
/// let rule = doc! {"balance": {"$type": "number"}};
/// bank.create_collection("accounts").option("validator", rule).await?;
/// let accounts = bank.collection("accounts");
/// let old_form = doc! {"_id": 1, "balance": "none"};
/// assert!(accounts.insert_one(&old_form).await.is_err());
/// mongotx::without_validation(accounts.insert_one(&old_form)).await?;
/// # Ok(()) }
/// ```
pub async fn without_validation<F: IntoFuture>(work: F) -> F::Output {
    BYPASSES_VALIDATION.scope(true, work.into_future()).await
}

/// The comment of the task's commands.
pub(crate) fn comment() -> Option<Bson> {
    COMMENT.try_with(Clone::clone).ok()
}

/// Adds the task's comment to a command that has none.
pub(crate) fn add_comment(command: &mut Document) {
    if let Some(comment) = comment()
        && !command.contains_key("comment")
    {
        command.insert("comment", comment);
    }
}

/// The same of a command that is bytes; `None`: there is nothing to add.
pub(crate) fn commented(command: &RawDocument) -> bson::error::Result<Option<RawDocumentBuf>> {
    let Some(comment) = comment() else { return Ok(None) };
    if command.get("comment")?.is_some() {
        return Ok(None);
    }
    let mut commented = command.to_owned();
    commented.append(cstr!("comment"), bson::RawBson::try_from(comment)?);
    Ok(Some(commented))
}

/// Returns true if validators are not to judge what the task writes.
pub(crate) fn bypasses_validation() -> bool {
    BYPASSES_VALIDATION.try_with(|bypasses| *bypasses).unwrap_or(false)
}

/// Awaits `work`, which waits for each answer of the server for this long at most.
pub(crate) async fn with_longest_answer<F: Future>(limit: Duration, work: F) -> F::Output {
    LONGEST_ANSWER.scope(limit, work).await
}

/// Longest wait of the task for one answer, if that was set.
pub(crate) fn longest_answer() -> Option<Duration> {
    LONGEST_ANSWER.try_with(|limit| *limit).ok()
}
