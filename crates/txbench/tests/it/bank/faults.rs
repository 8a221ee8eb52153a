//! A session that is broken on purpose.

use bson::Document;
use futures_util::future::BoxFuture;
use txbench::{
    BenchError,
    error::{OpError, OpResult},
    targets::{Change, Find, Session, TxOptions, Update},
};

/// Fault that a run of the bank meets on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The update with this number (from 1) is not done.
    LoseUpdate(u32),
    /// The update with this number is done twice.
    RepeatUpdate(u32),
    /// No insert is done.
    LoseInsert,
    /// The transaction with this number, from 1, conflicts however often it is tried.
    RefuseBegin(u32),
    /// The answer to the commit with this number, from 1, is lost.
    LoseAnswer(u32),
}

pub(crate) struct Faulty {
    session: Box<dyn Session>,
    fault: Fault,
    updates: u32,
    commits: u32,
    /// Attempts since the last commit.
    refused: u32,
}

impl Faulty {
    pub(crate) fn new(session: Box<dyn Session>, fault: Fault) -> Self {
        Self { session, fault, updates: 0, commits: 0, refused: 0 }
    }
}

impl Session for Faulty {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            if let Fault::RefuseBegin(at) = self.fault
                && self.commits + 1 == at
                && self.refused < 400
            {
                self.refused += 1;
                return Err(OpError::Conflict("refused"));
            }
            self.session.begin(options).await
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move {
            self.commits += 1;
            self.session.commit().await?;
            match self.fault {
                Fault::LoseAnswer(at) if at == self.commits => {
                    Err(OpError::Unknown(BenchError::Failed("the answer is lost".to_owned())))
                }
                _ => Ok(()),
            }
        })
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        Box::pin(async move { self.session.rollback().await })
    }

    fn find<'a>(&'a mut self, collection: &'a str, find: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move { self.session.find(collection, find).await })
    }

    fn insert<'a>(&'a mut self, collection: &'a str, documents: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        Box::pin(async move {
            match self.fault {
                Fault::LoseInsert => Ok(()),
                _ => self.session.insert(collection, documents).await,
            }
        })
    }

    fn update<'a>(&'a mut self, collection: &'a str, update: Update) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move {
            self.updates += 1;
            match self.fault {
                Fault::LoseUpdate(at) if at == self.updates => return Ok(true),
                Fault::RepeatUpdate(at) if at == self.updates => {
                    self.session.update(collection, update.clone()).await?;
                }
                _ => {}
            }
            self.session.update(collection, update).await
        })
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        find: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            self.updates += 1;
            match self.fault {
                Fault::LoseUpdate(at) if at == self.updates => self.session.find_one(collection, find).await,
                _ => self.session.find_and_modify(collection, find, change).await,
            }
        })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, filter: Document) -> BoxFuture<'a, OpResult<bool>> {
        Box::pin(async move { self.session.delete(collection, filter).await })
    }

    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move { self.session.aggregate(collection, pipeline).await })
    }
}
