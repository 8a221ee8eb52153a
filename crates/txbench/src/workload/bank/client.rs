//! One client of the bank: takes its operations one after the other and, now and then, reads.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    BankOptions,
    accounts::Accounts,
    operation::Operation,
    posting, reads,
    source::{Replay, Source},
    tally::Tally,
};
use crate::{
    error::{BenchError, OpResult},
    targets::Session,
    workload::{Chosen, Client, ClientId, Done},
};

pub(super) struct BankClient {
    options: Arc<BankOptions>,
    accounts: Arc<Accounts>,
    index: u32,
    replay: Replay,
    /// Source of the reads alone: operations are the same whatever is read in between.
    random: StdRng,
    next: Next,
    tally: Tally,
    violations: u64,
}

enum Next {
    Operation(Operation),
    Read(reads::Chosen),
    /// The end: all operations are done.
    End,
    /// The next operation could not be had.
    Failed(BenchError),
}

impl BankClient {
    pub(super) fn new(options: Arc<BankOptions>, source: &Source, id: ClientId) -> Result<Self, BenchError> {
        let replay = source.replay(id.index, id.of, options.endless);
        Ok(Self {
            options,
            accounts: Arc::clone(&source.accounts),
            index: id.index,
            replay,
            random: StdRng::seed_from_u64(id.seed),
            next: Next::End,
            tally: Tally::new(id.of),
            violations: 0,
        })
    }

    fn draw(&mut self) -> Next {
        if self.options.readers > 0 && self.random.random_range(0..100) < self.options.readers {
            return Next::Read(reads::Chosen::draw(&mut self.random, &self.options, self.accounts.len()));
        }
        match self.replay.next() {
            None => Next::End,
            Some(Err(error)) => Next::Failed(error),
            Some(Ok(operation)) => match self.tally.take() {
                Ok(()) => Next::Operation(operation),
                Err(error) => Next::Failed(error),
            },
        }
    }
}

#[async_trait]
impl Client for BankClient {
    fn choose(&mut self) -> Chosen {
        self.next = self.draw();
        let (kind, operations) = match &self.next {
            Next::Operation(operation) => (operation.change.kind(), operation.change.documents()),
            Next::Read(read) => (read.read.kind(), 1),
            Next::End | Next::Failed(_) => ("end", 0),
        };
        Chosen { kind, operations, wait: Duration::ZERO }
    }

    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done> {
        match &self.next {
            Next::Operation(operation) => {
                self.tally.begin();
                let ended = posting::post(session, &self.options, &self.accounts, *operation).await;
                self.tally.end(&ended);
                ended?;
            }
            Next::Read(read) => {
                let consistent = read.attempt(session, &self.accounts).await?;
                self.violations += u64::from(!consistent);
            }
            Next::End => return Ok(Done::Finished),
            Next::Failed(_) => {
                let Next::Failed(error) = std::mem::replace(&mut self.next, Next::End) else {
                    return Ok(Done::Finished);
                };
                return Err(error.into());
            }
        }
        Ok(Done::Committed)
    }

    async fn finish(&mut self, session: &mut dyn Session) -> OpResult<()> {
        self.tally.leave(session, self.index).await
    }

    fn violations(&self) -> u64 {
        self.violations
    }
}
