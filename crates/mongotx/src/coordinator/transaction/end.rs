//! The end of a transaction: the job for the finisher, and the signal to the client's other
//! transactions.

use protocol::Decided;

use super::Transaction;
use crate::coordinator::finishing::finisher::Job;

impl Transaction {
    /// Notes that the transaction's documents will be free within moments.
    pub(crate) fn ending(&self) {
        if let Some(claims) = &self.claims {
            claims.ending();
        }
    }

    /// The job for the finisher, once the transaction is decided.
    pub(crate) fn into_job(self, id: Decided, committed: bool) -> Job {
        self.ending();
        let held = self.held.into_iter().map(|(ns, set)| (ns, set.into_held()));
        Job { id, committed, held: held.collect(), claims: self.claims }
    }
}
