//! Connections to one server, opened when they are needed, and kept for the next commands.
//!
//! A caller has a connection to itself ([`PooledConnection`]) and gives it back by dropping it, or
//! says that it cannot be used again ([`PooledConnection::discard`]). Callers beyond the limit wait
//! their turn, for a bounded time. What is said over a connection is in `connection/`.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, SemaphorePermit},
    task::JoinSet,
    time::timeout,
};

use crate::{
    connection::Connection,
    failure::{Failure, UnreachableReason},
    settings::Settings,
};

/// Limits of a pool: number of connections, time to wait for one, time to keep one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Number of connections that are open at a time, at most, used and unused ones together.
    pub most: usize,
    /// Time for which a caller waits for a free connection; then [`Failure::Busy`].
    pub wait: Duration,
    /// The longest that an unused connection is kept. `None`: there is no limit.
    pub idle: Option<Duration>,
}

/// Connections to one server, which are closed when the pool is dropped.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = local_mongod::Server::standalone().await?;
/// # let port = server.port();
/// use std::{sync::Arc, time::Duration};
///
/// use bson::rawdoc;
/// use mongowire::{Address, Pool, PoolLimits, Settings};
///
/// let settings = Settings::new(Address::Tcp("127.0.0.1".to_owned(), port));
/// let limits = PoolLimits { most: 10, wait: Duration::from_secs(5), idle: None };
/// let pool = Pool::new(settings, limits, Arc::default());
///
/// let mut connection = pool.get().await?;
/// assert!(connection.is_new());
/// let limit = Duration::from_secs(60);
/// let answer = connection.run_command(Some("admin"), &rawdoc! {"ping": 1}, &[], limit).await?;
/// assert_eq!(answer.get_f64("ok")?, 1.0);
///
/// drop(connection); // it goes back to the pool
/// assert!(!pool.get().await?.is_new());
/// # Ok(()) }
/// ```
pub struct Pool {
    limits: PoolLimits,
    /// Counts connections that began to be opened; shared by all pools to a server ([`Pool::new`]).
    begun: Arc<AtomicU64>,
    /// Runtime in which connections live. The caller's own runtime may end before another caller
    /// uses the connection.
    runtime: Handle,
    /// One permit for each connection in use.
    free: Semaphore,
    state: Mutex<State>,
}

/// The connections that are idle, and how the next ones are made.
struct State {
    settings: Arc<Settings>,
    /// Connections that are not in use, the last used one last.
    idle: Vec<(Connection, Instant)>,
    /// Rises when all connections are to be closed: one of an earlier generation is not kept.
    generation: u64,
}

/// A connection in use. It goes back to the pool when this is dropped, if its last command was
/// answered.
pub struct PooledConnection<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    generation: u64,
    is_new: bool,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    /// A pool without connections, in the runtime that this is called in.
    ///
    /// `begun` rises before a connection is tried, and again when it is made. As long as it stays
    /// the same, all answers come over connections that had been answered before, and so from the
    /// server processes that were there.
    pub fn new(settings: Settings, limits: PoolLimits, begun: Arc<AtomicU64>) -> Self {
        let free = Semaphore::new(limits.most.clamp(1, Semaphore::MAX_PERMITS));
        let state = State { settings: Arc::new(settings), idle: Vec::new(), generation: 0 };
        Self { limits, begun, runtime: Handle::current(), free, state: Mutex::new(state) }
    }

    /// Settings with which the pool opens connections now: those of the last
    /// [`Pool::replace_settings`].
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.state().settings)
    }

    /// Opens connections with these settings from now on. Earlier connections are not used again.
    pub fn replace_settings(&self, settings: Settings) {
        self.state().settings = Arc::new(settings);
        self.clear();
    }

    /// Connections that were made so far are not used again: they may lead to a server that is
    /// gone.
    pub fn clear(&self) {
        let mut state = self.state();
        state.generation += 1;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        drop(idle);
    }

    /// Closes the pool and its unused connections: every later request for a connection fails with
    /// [`Failure::Closed`].
    pub fn close(&self) {
        self.free.close();
        self.clear();
    }

    /// A connection that was used before and is quiet since, or a new one. Where all are in use, it
    /// waits for one, at most for [`PoolLimits::wait`].
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::Server::standalone().await?;
    /// # let settings = mongowire::Settings::new(mongowire::Address::Tcp("127.0.0.1".to_owned(), server.port()));
    /// # let limits = mongowire::PoolLimits { most: 2, wait: std::time::Duration::from_secs(5), idle: None };
    /// # let pool = mongowire::Pool::new(settings, limits, Default::default());
    /// let one = pool.get().await?;
    /// let other = pool.get().await?; // another one: the first is in use
    /// assert_ne!(one.number(), other.number());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Failure::Busy`], [`Failure::Closed`], [`Failure::Unreachable`], [`Failure::Login`]:
    /// nothing was sent.
    pub async fn get(&self) -> Result<PooledConnection<'_>, Failure> {
        let permit = self.permit().await?;
        let (found, generation, settings) = self.take();
        let is_new = found.is_none();
        let connection = match found {
            Some(connection) => connection,
            None => self.open(settings).await?,
        };
        Ok(PooledConnection { pool: self, connection: Some(connection), generation, is_new, _permit: permit })
    }

    /// Returns true if the pool holds an idle connection whose last command was answered.
    pub fn has_idle(&self) -> bool {
        !self.state().idle.is_empty()
    }

    /// Runtime in which the connections live: the one in which the pool was made.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// A connection that was used before and is quiet since; none is opened.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::Server::standalone().await?;
    /// # let settings = mongowire::Settings::new(mongowire::Address::Tcp("127.0.0.1".to_owned(), server.port()));
    /// # let limits = mongowire::PoolLimits { most: 2, wait: std::time::Duration::from_secs(5), idle: None };
    /// # let pool = mongowire::Pool::new(settings, limits, Default::default());
    /// assert!(pool.get_kept().await?.is_none());
    /// drop(pool.get().await?); // it goes back to the pool
    /// assert!(pool.get_kept().await?.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Failure::Busy`], [`Failure::Closed`]: nothing was sent.
    pub async fn get_kept(&self) -> Result<Option<PooledConnection<'_>>, Failure> {
        let permit = self.permit().await?;
        let (found, generation, _) = self.take();
        Ok(found.map(|connection| PooledConnection {
            pool: self,
            connection: Some(connection),
            generation,
            is_new: false,
            _permit: permit,
        }))
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, Failure> {
        if let Ok(permit) = self.free.try_acquire() {
            return Ok(permit);
        }
        match timeout(self.limits.wait, self.free.acquire()).await {
            Ok(permit) => permit.map_err(|_| Failure::Closed),
            Err(_) => Err(Failure::Busy { most: self.limits.most, wait: self.limits.wait }),
        }
    }

    fn take(&self) -> (Option<Connection>, u64, Arc<Settings>) {
        let mut state = self.state();
        let mut found = None;
        while let Some((connection, _)) = state.idle.pop() {
            if connection.is_usable() {
                found = Some(connection);
                break;
            }
        }
        (found, state.generation, Arc::clone(&state.settings))
    }

    /// Opens one in a task of the pool's own runtime, which ends with this future.
    async fn open(&self, settings: Arc<Settings>) -> Result<Connection, Failure> {
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        let address = settings.address.clone();
        let mut opening = JoinSet::new();
        opening.spawn_on(Connection::open(settings, number), &self.runtime);
        let ended = || {
            let why = "the runtime in which connections live has ended".to_owned();
            Err(Failure::Unreachable { address, reason: UnreachableReason::Greeting(why) })
        };
        let opened = match opening.join_next().await {
            Some(Ok(opened)) => opened,
            _ => ended(),
        };
        if opened.is_ok() {
            self.begun.fetch_add(1, SeqCst);
        }
        opened
    }

    fn put_back(&self, connection: Connection, generation: u64) {
        let now = Instant::now();
        let mut state = self.state();
        if state.generation != generation || self.free.is_closed() {
            return;
        }
        state.idle.push((connection, now));
        // Connections are in the order of their last use, the longest unused one first.
        let old = |since: Instant| self.limits.idle.is_some_and(|limit| now.duration_since(since) > limit);
        if state.idle.first().is_some_and(|(_, since)| old(*since)) {
            state.idle.retain(|(_, since)| !old(*since));
        }
    }

    /// No code panics while it holds this lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledConnection<'_> {
    /// Returns true if the connection was opened for this use, and not taken from the pool.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Closes the connection, so that it does not go back to the pool: for one to a server that
    /// must not be used any more.
    pub fn discard(mut self) {
        self.connection = None;
    }
}

impl Deref for PooledConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().unwrap_or_else(|| unreachable!("a connection is there until it is dropped"))
    }
}

impl DerefMut for PooledConnection<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().unwrap_or_else(|| unreachable!("a connection is there until it is dropped"))
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(Connection::is_answered) {
            self.pool.put_back(connection, self.generation);
        }
    }
}
