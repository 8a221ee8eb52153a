//! The work of the client that is to be broken, and the two states in which its documents may be
//! found afterwards.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Client, Error, ErrorKind, Isolation, Session, TransactionOptions, TxId, WriteModel};

use super::{
    ghost,
    world::{COLLECTIONS, State, World, state_of},
};

/// The kinds of work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Updates in two collections, an insert, a removal, by a session that has lost twice and is
    /// given quiet.
    Several,
    /// Updates of one document in one transaction.
    Single,
    /// Repeatable read: read locks, then two writes, one of them on a document it has read.
    Repeatable,
    /// Updates, an insert and a removal, rolled back.
    Rollback,
    /// Meets what two dead clients have left, one undecided, one committed and not finished.
    Repair,
    /// One transaction, and then a shutdown.
    Shutdown,
    /// Two documents exchange the values of a unique index, and a new one takes over that of a
    /// removed one.
    Exchange,
    /// Snapshot: a bulk of upserts, of documents that were read before, and of others that are not
    /// there.
    Upserts,
    /// An update, then a bulk of updates of one shape, which is one statement for several
    /// documents.
    Bulk,
}

/// End of a client's life, if it did not break off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Committed,
    RolledBack,
    Failed(ErrorKind),
}

/// Reports of the client while it works.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    Id(TxId),
    End(End),
}

impl Scenario {
    pub(crate) const ALL: [Self; 9] = [
        Self::Several,
        Self::Single,
        Self::Repeatable,
        Self::Rollback,
        Self::Repair,
        Self::Shutdown,
        Self::Exchange,
        Self::Upserts,
        Self::Bulk,
    ];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| format!("{scenario:?}") == name)
    }

    /// Makes the documents that the scenario begins with, durably.
    pub(crate) async fn set_up(self, world: &World) {
        let database = world.raw().await.database(&world.db);
        for name in COLLECTIONS {
            let documents = (1..=3).map(|id| doc! {"_id": id, "n": 0});
            database.collection::<Document>(name).insert_many(documents).await.unwrap();
        }
        if self == Self::Exchange {
            let a = database.collection::<Document>("a");
            a.update_many(doc! {}, vec![doc! {"$set": {"n": "$_id"}}]).await.unwrap();
            let unique = mongodb::options::IndexOptions::builder().unique(true).build();
            a.create_index(mongodb::IndexModel::builder().keys(doc! {"n": 1}).options(unique).build()).await.unwrap();
        }
        if self == Self::Repair {
            ghost::unfinished(world).await;
            ghost::undecided(world).await;
        }
        world.make_durable().await;
    }

    pub(crate) fn before(self) -> State {
        match self {
            Self::Exchange => state_of(&[("a1", 1), ("a2", 2), ("a3", 3), ("b1", 0), ("b2", 0), ("b3", 0)]),
            Self::Repair => state_of(&[("a1", 0), ("a2", 7), ("b1", 0), ("b2", 7), ("b3", 0)]),
            _ => state_of(&[("a1", 0), ("a2", 0), ("a3", 0), ("b1", 0), ("b2", 0), ("b3", 0)]),
        }
    }

    pub(crate) fn after(self) -> State {
        match self {
            Self::Several => state_of(&[("a1", 1), ("a2", 0), ("a10", 1), ("b1", 1), ("b2", 0), ("b3", 0)]),
            Self::Single | Self::Shutdown => {
                state_of(&[("a1", 1), ("a2", 0), ("a3", 0), ("b1", 0), ("b2", 0), ("b3", 0)])
            }
            Self::Repeatable => state_of(&[("a1", 1), ("a2", 0), ("a3", 0), ("b1", 1), ("b2", 0), ("b3", 0)]),
            Self::Rollback => self.before(),
            Self::Exchange => state_of(&[("a1", 2), ("a2", 1), ("a10", 3), ("b1", 0), ("b2", 0), ("b3", 0)]),
            Self::Upserts => {
                let a = [("a1", 1), ("a2", 1), ("a3", 0), ("a10", 1), ("a11", 1)];
                state_of(&[&a[..], &[("b1", 1), ("b2", 0), ("b3", 0)]].concat())
            }
            Self::Bulk => state_of(&[("a1", 1), ("a2", 1), ("a3", 1), ("b1", 1), ("b2", 0), ("b3", 0)]),
            Self::Repair => state_of(&[("a1", 1), ("a2", 8), ("b1", 0), ("b2", 7), ("b3", 0)]),
        }
    }

    /// Lives it, up to the end of the transaction.
    pub(crate) async fn live(self, world: &World, client: &Client, tell: &(impl Fn(Progress) + Sync)) -> End {
        let isolation = match self {
            Self::Repeatable => Isolation::RepeatableRead,
            Self::Several | Self::Upserts => Isolation::Snapshot,
            _ => Isolation::ReadCommitted,
        };
        let options = TransactionOptions {
            isolation: Some(isolation),
            lock_wait: Duration::from_secs(20),
            ..TransactionOptions::default()
        };
        let mut session = client.session_with(options);
        let done = self.transact(world, client, &mut session, tell).await;
        let end = match done {
            Ok(()) if self == Self::Rollback => End::RolledBack,
            Ok(()) => End::Committed,
            Err(error) => End::Failed(error.kind()),
        };
        tell(Progress::End(end));
        end
    }

    /// Work after it, until the client has nothing left to do.
    pub(crate) async fn leave(self, client: &Client) {
        if self == Self::Shutdown {
            client.shutdown().await.unwrap();
        } else {
            client.flush(Duration::from_secs(20)).await;
        }
    }

    async fn transact(
        self,
        world: &World,
        client: &Client,
        session: &mut Session,
        tell: &(impl Fn(Progress) + Sync),
    ) -> Result<(), Error> {
        let (a, b) = (world.collection(client, "a"), world.collection(client, "b"));
        let add = doc! {"$inc": {"n": 1}};
        let tell_id = |session: &Session| session.id().into_iter().for_each(|id| tell(Progress::Id(id)));
        if self == Self::Several {
            lose_twice(world, client, session).await?;
        }
        session.begin()?;
        match self {
            Self::Single | Self::Shutdown => {
                a.update_one(doc! {"_id": 1}, add).session(session).await?;
                tell_id(session);
            }
            Self::Several | Self::Rollback => {
                assert_eq!(b.find(doc! {"_id": {"$gt": 1}}).session(session).await?.try_collect().await?.len(), 2);
                a.update_one(doc! {"_id": 1}, add.clone()).session(session).await?;
                tell_id(session);
                b.update_one(doc! {"_id": 1}, doc! {"$mul": {"m": 2}, "$inc": {"n": 1}}).session(session).await?;
                a.insert_one(&doc! {"_id": 10, "n": 1}).session(session).await?;
                a.delete_one(doc! {"_id": 3}).session(session).await?;
            }
            Self::Repeatable => {
                let read = a.find(doc! {"_id": {"$lt": 3}}).session(session).await?.try_collect().await?;
                tell_id(session);
                assert_eq!(read.len(), 2);
                b.update_one(doc! {"_id": 1}, add.clone()).session(session).await?;
                a.update_one(doc! {"_id": 1}, add).session(session).await?;
            }
            Self::Exchange => {
                for (id, n) in [(1, 99), (2, 1), (1, 2)] {
                    a.update_one(doc! {"_id": id}, doc! {"$set": {"n": n}}).session(session).await?;
                    tell_id(session);
                }
                a.delete_one(doc! {"_id": 3}).session(session).await?;
                a.insert_one(&doc! {"_id": 10, "n": 3}).session(session).await?;
            }
            Self::Upserts => {
                let some = a.find(doc! {"_id": {"$in": [1, 2]}}).projection(doc! {"n": 1}).session(session);
                assert_eq!(some.await?.try_collect().await?.len(), 2);
                b.update_one(doc! {"_id": 1}, add.clone()).session(session).await?;
                tell_id(session);
                let upsert = |id: i32| WriteModel::UpdateOne {
                    filter: doc! {"_id": id},
                    update: add.clone().into(),
                    upsert: true,
                };
                a.bulk_write([1, 2, 10, 11].map(upsert)).session(session).await?;
            }
            Self::Bulk => {
                b.update_one(doc! {"_id": 1}, add.clone()).session(session).await?;
                tell_id(session);
                let update = |id: i32| WriteModel::UpdateOne {
                    filter: doc! {"_id": id},
                    update: add.clone().into(),
                    upsert: false,
                };
                a.bulk_write([3, 1, 2].map(update)).session(session).await?;
            }
            Self::Repair => {
                assert_eq!(b.find(doc! {}).session(session).await?.try_collect().await?.len(), 3);
                assert!(a.find_one(doc! {"_id": 2}).session(session).await?.is_some());
                a.update_one(doc! {"_id": 1}, add.clone()).session(session).await?;
                tell_id(session);
                a.update_one(doc! {"_id": 2}, add).session(session).await?;
            }
        }
        if self == Self::Rollback { session.rollback().await } else { session.commit().await }
    }
}

/// Two transactions that have read what changes before they are validated.
async fn lose_twice(world: &World, client: &Client, session: &mut Session) -> Result<(), Error> {
    let lost = world.collection(client, "lost");
    for id in [1, 2] {
        session.begin()?;
        for id in [1, 2] {
            lost.find_one(doc! {"_id": id}).session(session).await?;
        }
        lost.insert_one(&doc! {"_id": id}).await?;
        match session.commit().await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            other => return other,
        }
    }
    Ok(())
}
