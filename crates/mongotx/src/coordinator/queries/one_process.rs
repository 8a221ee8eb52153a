//! Queries of several commands, which one server process has to answer.
//!
//! A commit is journaled when it is acknowledged. That its documents are finished is not: a server
//! that is killed soon after may show them pending again. So a query that finds nothing pending,
//! and then reads the safe versions from the next server process, would show what was there before
//! the commit. Such a query is sent again, from its first command on.
//!
//! Where several servers keep the data, processes are not compared: there the first command is a
//! linearizable read, so that the majority has what it shows, and with it every later primary.
//! Servers that do not name their process are not covered: it cannot be compared.

use bson::oid::ObjectId;

use crate::{
    coordinator::server::Server,
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Limit of attempts. Each one more takes a restart of the server during the one before.
const ATTEMPTS: usize = 16;

/// The attempts of one query to be answered by one server process. The loop is the caller's:
///
/// ```text
/// let mut attempts = OneProcessAttempts::begin(server);
/// loop {
///     let answer = …; // all commands of the query
///     if attempts.is_answered_by_one(ns)? {
///         return Ok(answer);
///     }
/// }
/// ```
pub(crate) struct OneProcessAttempts<'a> {
    server: &'a Server,
    /// Process that answered before the first command of this attempt; `None`: not known.
    process: Option<ObjectId>,
    left: usize,
}

impl<'a> OneProcessAttempts<'a> {
    /// To be called before the first command of the query.
    pub(crate) fn begin(server: &'a Server) -> Self {
        Self { server, process: server.nodes.process(), left: ATTEMPTS }
    }

    /// Returns true if no other process has answered since the attempt began. If one has, another
    /// attempt begins. To be called when the last command is answered.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the server was started anew during each attempt.
    pub(crate) fn is_answered_by_one(&mut self, ns: &Namespace) -> Result<bool> {
        let process = self.server.nodes.process();
        if process == self.process {
            return Ok(true);
        }
        self.process = process;
        self.left -= 1;
        if self.left > 0 {
            return Ok(false);
        }
        let message = format!("{ns} could not be read: the server was started anew during each of {ATTEMPTS} attempts");
        Err(Error::new(ErrorKind::Unavailable, message))
    }
}
