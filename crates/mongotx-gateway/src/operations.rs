//! The operations at this gateway at one moment: commands that run, and transactions that wait for
//! their next one.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bson::RawBsonRef;
use mongotx::{TxId, Wait};

use crate::{
    activity::{
        ClientIdentity, ConnectionActivity, shape,
        transactions::{OpenTransaction, Statement},
    },
    session::Lsid,
    state::State,
};

/// Filter and limit of the operations that a caller asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationFilter<'a> {
    /// Digest of the user whose operations are wanted. `None`: those of all users.
    pub(crate) user: Option<&'a [u8]>,
    /// True if connections on which no command runs are wanted, too.
    pub(crate) idle_connections: bool,
    /// True if open transactions in which no command runs are wanted, too.
    pub(crate) idle_transactions: bool,
    /// Limit of the operations in the answer.
    pub(crate) most: usize,
}

/// An operation that runs, or waits to go on.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) who: Arc<ClientIdentity>,
    /// The command that runs, or that was the last one of a transaction.
    pub(crate) statement: Statement,
    /// Time that the command has been running; without a command, time that the transaction, or the
    /// connection, has been open.
    pub(crate) lasts: Duration,
    pub(crate) lsid: Option<Lsid>,
    pub(crate) transaction: Option<Transaction>,
    /// The transaction that it waits for.
    pub(crate) wait: Option<Wait>,
}

/// Kind of an operation: what runs, or what waits for the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command, by its number.
    Command(i64),
    /// A transaction in which no command runs.
    Idle,
    /// A connection on which no command runs.
    Connection,
}

/// An open transaction, as an operation shows it.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) number: i64,
    pub(crate) open: Duration,
    /// The id under which the store knows it, once it has written something.
    pub(crate) id: Option<TxId>,
}

impl Transaction {
    fn of(shown: &OpenTransaction, now: Instant) -> Self {
        let open = now.saturating_duration_since(shown.since);
        Self { number: shown.number, open, id: shown.now().id }
    }
}

/// The operations at this moment, at most so many. Looking delays others only by the time it takes
/// to copy a few references.
pub(crate) fn running_operations(state: &State, wanted: OperationFilter<'_>) -> Vec<Operation> {
    let now = Instant::now();
    let is_wanted = |who: &ClientIdentity| {
        let digest = || who.user.as_ref().map(|user| user.digest()).unwrap_or_default();
        wanted.user.is_none_or(|user| digest() == user)
    };
    let is_shown =
        |doing: &ConnectionActivity| (wanted.idle_connections || doing.is_running()) && is_wanted(&doing.who());
    let connections = state.connections.some(wanted.most, is_shown);
    let mut all: Vec<Operation> =
        connections.iter().filter_map(|doing| on_connection(state, doing, wanted.idle_connections, now)).collect();
    if wanted.idle_transactions {
        let seen: HashSet<Lsid> =
            all.iter().filter(|one| one.transaction.is_some()).filter_map(|one| one.lsid.clone()).collect();
        let is_other = |lsid: &Lsid| wanted.user.is_none_or(|user| lsid.user == user) && !seen.contains(lsid);
        let open = state.sessions.shown(wanted.most.saturating_sub(all.len()), is_other);
        all.extend(open.into_iter().map(|(lsid, shown)| idle(lsid, &shown, now)));
    }
    all
}

fn on_connection(state: &State, doing: &ConnectionActivity, idle_too: bool, now: Instant) -> Option<Operation> {
    let who = doing.who();
    let Some(running) = doing.running() else {
        let lasts = now.saturating_duration_since(doing.since);
        let (kind, statement) = (Kind::Connection, Statement::None);
        let none = Operation { kind, who, statement, lasts, lsid: None, transaction: None, wait: None };
        return idle_too.then_some(none);
    };
    let body = running.request.body();
    let user = who.user.as_ref().map(|user| user.digest()).unwrap_or_default();
    let lsid = Lsid::in_command(body, user);
    let is_statement = matches!(body.get("autocommit"), Ok(Some(RawBsonRef::Boolean(false))));
    let entry = lsid.as_ref().filter(|_| is_statement).and_then(|lsid| state.sessions.find(lsid));
    let shown = entry.and_then(|entry| entry.shown());
    Some(Operation {
        kind: Kind::Command(running.opid(doing.connection)),
        transaction: shown.map(|shown| Transaction::of(&shown, now)),
        wait: doing.watch.wait(),
        lasts: now.saturating_duration_since(running.since),
        statement: Statement::Kept(running.request),
        lsid,
        who,
    })
}

fn idle(lsid: Lsid, shown: &OpenTransaction, now: Instant) -> Operation {
    let snapshot = shown.now();
    let transaction = Transaction::of(shown, now);
    Operation {
        kind: Kind::Idle,
        who: snapshot.who,
        statement: snapshot.statement,
        lasts: transaction.open,
        lsid: Some(lsid),
        transaction: Some(transaction),
        wait: None,
    }
}

impl Operation {
    /// Namespace of the statement, as in `shop.orders`.
    pub(crate) fn namespace(&self) -> Option<String> {
        self.statement.namespace()
    }

    /// Name of the command that the operation runs.
    pub(crate) fn command(&self) -> Option<&str> {
        match &self.statement {
            Statement::None => None,
            Statement::Kept(request) => Some(request.name()),
            Statement::Named(_, name) => Some(name),
        }
    }

    /// The command without its values.
    pub(crate) fn shape(&self) -> bson::Document {
        match &self.statement {
            Statement::Kept(request) => {
                let mut shape = shape::shape_of(request);
                shape.insert("$db", request.database());
                shape
            }
            Statement::None | Statement::Named(..) => bson::Document::new(),
        }
    }
}
