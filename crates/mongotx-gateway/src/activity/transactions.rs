//! Open transactions, as others may see them: by their sessions, and by the ids under which the
//! store knows them.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Instant,
};

use mongotx::TxId;

use super::{ClientIdentity, ConnectionActivity, locked, shape};
use crate::request::Request;

/// Size in bytes up to which a statement is kept to be shown; of a larger one only its name and
/// namespace are kept.
const MOST_KEPT_BYTES: usize = 1024;
/// Transactions that were rolled back and are remembered.
const MOST_ENDED: usize = 50;

/// An open transaction, as others may see it.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    /// The session, as it is written in the log.
    pub(crate) session: String,
    pub(crate) number: i64,
    pub(crate) since: Instant,
    state: Mutex<State>,
    known: Arc<Transactions>,
}

/// State of an open transaction that changes with its statements.
#[derive(Debug)]
struct State {
    who: Arc<ClientIdentity>,
    /// The connection on which a statement runs.
    doing: Option<Arc<ConnectionActivity>>,
    /// The last statement, or the one that runs.
    statement: Statement,
    id: Option<TxId>,
}

/// A statement of a transaction. It is shown without its values.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    None,
    Kept(Arc<Request>),
    /// Namespace and name of a statement that is too large to keep.
    Named(String, String),
}

impl Statement {
    fn of(request: &Arc<Request>) -> Self {
        let bytes = request.body().as_bytes().len();
        // The document sequences are kept with the body.
        if request.sequences().iter().fold(bytes, |all, one| all.saturating_add(one.bytes.len())) <= MOST_KEPT_BYTES {
            return Self::Kept(Arc::clone(request));
        }
        Self::Named(shape::namespace(request), request.name().to_owned())
    }

    /// Namespace of the statement, as in `shop.orders`.
    pub(crate) fn namespace(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Kept(request) => Some(shape::namespace(request)),
            Self::Named(namespace, _) => Some(namespace.clone()),
        }
    }

    /// The statement in one line, as in `{update: "orders", updates: …}`.
    pub(crate) fn shape(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Kept(request) => Some(shape::shape_of(request).to_string()),
            Self::Named(_, name) => Some(format!("{{ {name:?}: … }}")),
        }
    }
}

/// A copy of what is known of an open transaction.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) who: Arc<ClientIdentity>,
    pub(crate) statement: Statement,
    pub(crate) id: Option<TxId>,
    pub(crate) runs: bool,
}

/// As a line of the log names it: who, the namespace and the shape of the last statement.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.who)?;
        if let Some(shape) = self.statement.shape() {
            write!(f, ", {shape}")?;
        }
        Ok(())
    }
}

/// A transaction that was in the way of another one.
#[derive(Clone, Debug)]
pub(crate) struct Rival {
    pub(crate) id: TxId,
    /// State of the rival at that moment. `None`: a transaction of another gateway, or one that is
    /// over.
    pub(crate) shown: Option<Snapshot>,
}

/// A transaction that was rolled back.
#[derive(Clone, Debug)]
pub(crate) struct EndedTransaction {
    pub(crate) at: Instant,
    pub(crate) reason: &'static str,
    pub(crate) code: i32,
    pub(crate) shown: Snapshot,
    pub(crate) rival: Option<Rival>,
}

/// The open transactions of a gateway that may hold something, by their ids; and those that were
/// rolled back last.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    open: Mutex<HashMap<TxId, Weak<OpenTransaction>>>,
    ended: Mutex<VecDeque<EndedTransaction>>,
}

impl Transactions {
    /// The open transaction of this id.
    pub(crate) fn find(&self, id: TxId) -> Option<Arc<OpenTransaction>> {
        self.locked().get(&id)?.upgrade()
    }

    /// All open transactions that have an id.
    pub(crate) fn all(&self) -> Vec<Arc<OpenTransaction>> {
        self.locked().values().filter_map(Weak::upgrade).collect()
    }

    /// Notes that a transaction was rolled back.
    pub(crate) fn ended(&self, ended: EndedTransaction) {
        let mut all = locked(&self.ended);
        if all.len() >= MOST_ENDED {
            all.pop_front();
        }
        all.push_back(ended);
    }

    /// The transactions that were rolled back last, the latest first.
    pub(crate) fn last_ended(&self) -> Vec<EndedTransaction> {
        locked(&self.ended).iter().rev().cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<TxId, Weak<OpenTransaction>>> {
        locked(&self.open)
    }
}

impl OpenTransaction {
    pub(crate) fn new(known: &Arc<Transactions>, session: String, number: i64, who: Arc<ClientIdentity>) -> Arc<Self> {
        let state = State { who, doing: None, statement: Statement::None, id: None };
        Arc::new(Self { session, number, since: Instant::now(), state: Mutex::new(state), known: Arc::clone(known) })
    }

    /// Notes that a statement runs, until the returned value is dropped.
    pub(crate) fn runs(self: &Arc<Self>, doing: &Arc<ConnectionActivity>, request: &Arc<Request>) -> RunningStatement {
        let mut state = locked(&self.state);
        state.who = doing.who();
        state.doing = Some(Arc::clone(doing));
        state.statement = Statement::of(request);
        drop(state);
        RunningStatement(Arc::clone(self))
    }

    /// Notes the id under which the store knows the transaction.
    pub(crate) fn note_id(self: &Arc<Self>, id: TxId) {
        let is_new = locked(&self.state).id.replace(id) != Some(id);
        if is_new {
            self.known.locked().insert(id, Arc::downgrade(self));
        }
    }

    /// The present state of the transaction.
    pub(crate) fn now(&self) -> Snapshot {
        let state = locked(&self.state);
        Snapshot {
            who: Arc::clone(&state.who),
            statement: state.statement.clone(),
            id: state.id,
            runs: state.doing.is_some(),
        }
    }

    /// The transaction that its statement waits for.
    pub(crate) fn wait(&self) -> Option<mongotx::Wait> {
        let doing = locked(&self.state).doing.clone()?;
        doing.watch.wait()
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        if let Some(id) = locked(&self.state).id {
            self.known.locked().remove(&id);
        }
    }
}

/// A statement runs as long as this lives.
pub(crate) struct RunningStatement(Arc<OpenTransaction>);

impl Drop for RunningStatement {
    fn drop(&mut self) {
        locked(&self.0.state).doing = None;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;
    use mongotx::ClientId;

    use super::*;

    fn request(command: bson::Document) -> Arc<Request> {
        Arc::new(Request::of(&command).unwrap())
    }

    #[test]
    fn a_transaction_is_found_by_its_id_until_it_ends() {
        let known = Arc::<Transactions>::default();
        let open = OpenTransaction::new(&known, "s".to_owned(), 3, Arc::default());
        let id = TxId { client: ClientId([1; 12]), seq: 9 };
        assert!(known.find(id).is_none());
        open.note_id(id);
        assert_eq!(known.find(id).unwrap().number, 3);
        drop(open);
        assert!(known.find(id).is_none() && known.locked().is_empty());
    }

    #[test]
    fn the_last_statement_is_shown_without_its_values_and_large_ones_by_name() {
        let known = Arc::<Transactions>::default();
        let open = OpenTransaction::new(&known, "s".to_owned(), 3, Arc::default());
        let doing = Arc::new(ConnectionActivity::new(1, "here".to_owned()));
        let runs = open.runs(&doing, &request(doc! {"find": "c", "filter": {"a": 42}, "$db": "d"}));
        assert!(open.now().runs);
        drop(runs);
        let now = open.now();
        assert!(!now.runs);
        assert_eq!(now.statement.namespace().unwrap(), "d.c");
        let shape = now.statement.shape().unwrap();
        assert!(shape.contains("\"a\"") && !shape.contains("42"), "{shape}");
        let large = "x".repeat(MOST_KEPT_BYTES);
        drop(open.runs(&doing, &request(doc! {"find": "c", "filter": {"a": large}, "$db": "d"})));
        assert!(matches!(open.now().statement, Statement::Named(..)));
        assert_eq!(open.now().statement.shape().unwrap(), "{ \"find\": … }");
    }
}
