//! Transactions that are tried again as section 3.2 says.
//!
//! - Read lock refused, or what was read is stale: begun again at once, with what the refusal brought along (section 4.1).
//! - Write lock refused, or the server is at a limit: the same transaction is committed again, after a wait that doubles.
//! - No answer: the server is asked again; nothing is done twice.

use std::collections::BTreeMap;
use std::thread;

use bytes::Bytes;

use super::backoff::Backoff;
use super::error::Again;
use super::{Client, Committed, Error, Result, Scanned, Transaction};
use crate::core::{Advice, Item, Key, KeyRange, Refusal};

/// Immediate restarts before restarts wait too: whoever holds the lock is being slow.
const IMMEDIATE_RESTARTS: u32 = 3;

impl Client {
    /// Runs a transaction, again and again as far as the options allow, until it is committed. `body` may be called several
    /// times and must do nothing else that cannot be repeated.
    ///
    /// # Errors
    /// What `body` returns, or [`Error::GivenUp`], or [`Error::Unknown`] if the answer to a commit stays out.
    pub fn transact<T>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut brought = BTreeMap::new();
        let mut backoff = Backoff::new();
        let attempts = self.inner.options.attempts.max(1);
        let mut last = Refusal::LockWaitExpired;
        let mut attempt = 0;
        while attempt < attempts {
            let mut tranx = self.begin();
            tranx.brought = std::mem::take(&mut brought);
            let value = body(&mut tranx)?;
            loop {
                attempt += 1;
                let refusal = match tranx.commit_surely() {
                    Ok(_) => return Ok(value),
                    Err(Error::Refused(refusal)) => refusal,
                    Err(error) => return Err(error),
                };
                let advice = refusal.advice();
                brought = current(&refusal);
                last = refusal;
                match advice {
                    Advice::GiveUp => return Err(Error::Refused(last)),
                    Advice::RetryLater => thread::sleep(backoff.next()),
                    Advice::Restart => {
                        if attempt > IMMEDIATE_RESTARTS {
                            thread::sleep(backoff.next());
                        }
                        break;
                    }
                }
                if attempt >= attempts {
                    break;
                }
            }
        }
        Err(Error::GivenUp { attempts, last })
    }

    /// What a key holds: a transaction of one read.
    ///
    /// # Errors
    /// As for [`Client::transact`].
    pub fn get(&self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        let key = key.into();
        self.transact(|tranx| tranx.get(key.clone()))
    }

    /// Lets a key hold a value: a transaction of one write.
    ///
    /// # Errors
    /// As for [`Client::transact`].
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        let (key, value) = (key.into(), value.into());
        self.transact(|tranx| tranx.put(key.clone(), value.clone()))
    }

    /// Deletes a key: a transaction of one write.
    ///
    /// # Errors
    /// As for [`Client::transact`].
    pub fn delete(&self, key: impl Into<Bytes>) -> Result<()> {
        let key = key.into();
        self.transact(|tranx| tranx.delete(key.clone()))
    }

    /// The keys of a range, in order: a transaction of one scan.
    ///
    /// # Errors
    /// As for [`Client::transact`] and [`Transaction::scan`].
    pub fn scan(&self, range: &KeyRange, limit: usize) -> Result<Scanned> {
        self.transact(|tranx| tranx.scan(range.clone(), limit))
    }
}

impl Transaction {
    /// Commits, and if there is no answer, asks once more for as long as a request may take.
    fn commit_surely(&mut self) -> Result<Committed> {
        let unknown = match self.try_commit() {
            Err(Error::Unknown(unknown)) => unknown,
            other => return other,
        };
        match unknown.again(self.client.until()) {
            Again::Answer(answer) => self.answered(answer),
            Again::Silence(unknown) => Err(Error::Unknown(unknown)),
        }
    }
}

fn current(refusal: &Refusal) -> BTreeMap<Key, Option<Item>> {
    match refusal {
        Refusal::Stale { current } => current.iter().map(|now| (now.key.clone(), now.item.clone())).collect(),
        _ => BTreeMap::new(),
    }
}
