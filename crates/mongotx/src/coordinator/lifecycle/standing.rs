//! Checks that a transaction still stands. One that was fenced, aborted, or robbed of its prepared
//! writes by a server that was killed cannot be committed any more, and would read on without its
//! own writes: its next statement fails.
//!
//! The check comes when a statement has its answer, because an earlier one vouches for nothing that
//! was read afterwards:
//!
//! | what could have happened | what shows it | commands |
//! | --- | --- | --- |
//! | the record is lost, or the server was replaced, and the client knows | the log ([`Standing::Lost`]); before a statement, too | none |
//! | fenced while the client stood still | no sign of life was acknowledged for most of the lease: a look at the record | none as a rule |
//! | the server was replaced, and the connection for records has not noticed | a connection was made since the transaction began: a look at the record over that connection | none as a rule |
//! | aborted by a rival, with everything else as it should be | a document that the transaction held and holds no more: a look at the record | none as a rule |
//! | the same, and the statement has answered from the transaction's own view of a collection | a look at the record | one |

use std::sync::Arc;

use crate::{
    coordinator::{
        log::txlog::{RecordConnection, Standing, TxLog},
        server::Server,
        transaction::Transaction,
    },
    error::{Error, ErrorKind, Result},
};

/// Checks that transactions still stand.
pub(crate) struct Standings {
    server: Arc<Server>,
    log: Arc<dyn TxLog>,
}

impl Standings {
    pub(crate) fn new(server: Arc<Server>, log: Arc<dyn TxLog>) -> Self {
        Self { server, log }
    }

    /// Called before a statement: fails if the transaction is known to be lost.
    pub(crate) fn check_standing(&self, tx: &Transaction) -> Result<()> {
        match tx.started {
            Some(started) if self.log.standing(started) == Standing::Lost => {
                let message = "the transaction was rolled back: its lease had expired, or the server was replaced and may \
                               have lost what it had acknowledged";
                Err(Error::new(ErrorKind::Expired, message).for_transaction(tx.id()))
            }
            _ => Ok(()),
        }
    }

    /// Called after a statement was answered: fails if the transaction did not stand when the
    /// answer was made.
    pub(crate) async fn vouch(&self, tx: &mut Transaction) -> Result<()> {
        let Some(started) = tx.started else { return Ok(()) };
        self.check_standing(tx)?;
        let connections = self.server.connections();
        let own_view = tx.take_own_view();
        if self.log.standing(started) == Standing::Doubtful || tx.connections != connections {
            self.log.vouch(started, RecordConnection::AtServer).await?;
            tx.connections = connections;
        } else if own_view {
            self.log.vouch(started, RecordConnection::Plain).await?;
        }
        Ok(())
    }

    /// Checks that the transaction was not rolled back by a rival, because a document that it held
    /// may be free.
    pub(crate) async fn vouch_for_lock(&self, tx: &Transaction) -> Result<()> {
        match tx.started {
            Some(started) => self.log.vouch(started, RecordConnection::AtServer).await,
            None => Ok(()),
        }
    }
}
