//! A session that is broken on purpose.

use async_trait::async_trait;
use bson::Document;
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
    /// It is done twice.
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

#[async_trait]
impl Session for Faulty {
    async fn begin(&mut self, options: &TxOptions) -> OpResult<()> {
        if let Fault::RefuseBegin(at) = self.fault
            && self.commits + 1 == at
            && self.refused < 400
        {
            self.refused += 1;
            return Err(OpError::Conflict("refused"));
        }
        self.session.begin(options).await
    }

    async fn commit(&mut self) -> OpResult<()> {
        self.commits += 1;
        self.session.commit().await?;
        match self.fault {
            Fault::LoseAnswer(at) if at == self.commits => {
                Err(OpError::Unknown(BenchError::Failed("the answer is lost".to_owned())))
            }
            _ => Ok(()),
        }
    }

    async fn rollback(&mut self) -> OpResult<()> {
        self.session.rollback().await
    }

    async fn find(&mut self, collection: &str, find: Find) -> OpResult<Vec<Document>> {
        self.session.find(collection, find).await
    }

    async fn insert(&mut self, collection: &str, documents: Vec<Document>) -> OpResult<()> {
        match self.fault {
            Fault::LoseInsert => Ok(()),
            _ => self.session.insert(collection, documents).await,
        }
    }

    async fn update(&mut self, collection: &str, update: Update) -> OpResult<bool> {
        self.updates += 1;
        match self.fault {
            Fault::LoseUpdate(at) if at == self.updates => return Ok(true),
            Fault::RepeatUpdate(at) if at == self.updates => {
                self.session.update(collection, update.clone()).await?;
            }
            _ => {}
        }
        self.session.update(collection, update).await
    }

    async fn find_and_modify(&mut self, collection: &str, find: Find, change: Change) -> OpResult<Option<Document>> {
        self.updates += 1;
        match self.fault {
            Fault::LoseUpdate(at) if at == self.updates => self.session.find_one(collection, find).await,
            _ => self.session.find_and_modify(collection, find, change).await,
        }
    }

    async fn delete(&mut self, collection: &str, filter: Document) -> OpResult<bool> {
        self.session.delete(collection, filter).await
    }

    async fn aggregate(&mut self, collection: &str, pipeline: Vec<Document>) -> OpResult<Vec<Document>> {
        self.session.aggregate(collection, pipeline).await
    }
}
