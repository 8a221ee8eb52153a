//! Each kind of read, beside rivals.

use bson::{Document, doc};
use mongotx::{Client, Collection, ErrorKind, Isolation, Result, Session, TransactionOptions};

use super::reads::{self, Read};
use crate::quiet;

const LEVELS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

/// Time at which the transaction writes to the collection that it reads, beside what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    Nothing,
    /// A document beside what is read, before or after the read.
    Before,
    After,
    /// A document of the range, before the read and again after it.
    Within,
}

const WRITES: [Writes; 4] = [Writes::Nothing, Writes::Before, Writes::After, Writes::Within];

/// Changes that a rival makes, and commits, after the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    Nothing,
    /// Changes a document that no read looks at.
    Beside,
    /// Changes what the read has shown.
    Changes,
    /// Inserts a document that the read would find.
    Inserts,
    /// Another transaction, by the same client, as the last.
    ChangesAsSibling,
}

const RIVALS: [Rival; 5] = [Rival::Nothing, Rival::Beside, Rival::Changes, Rival::Inserts, Rival::ChangesAsSibling];

struct Place {
    client: Client,
    rival: Client,
    coll: Collection<Document>,
    others: Collection<Document>,
}

/// A new collection for two clients.
async fn place((client, rival): &(Client, Client)) -> Place {
    let (client, rival) = (client.clone(), rival.clone());
    let coll = quiet::collection(&client, 0).await;
    coll.insert_many(&reads::documents()).await.unwrap();
    let others = quiet::through(&rival, &coll);
    Place { client, rival, coll, others }
}

async fn write(writes: Writes, at: Writes, coll: &Collection<Document>, session: &mut Session) -> Result<()> {
    match (writes, at) {
        (Writes::Within, Writes::Before) => {
            coll.update_one(doc! {"_id": 5}, doc! {"$set": {"k": 51}}).session(session).await?;
            coll.insert_one(&doc! {"_id": 50, "k": 500, "n": 1}).session(session).await?;
        }
        (Writes::Within, Writes::After) => {
            coll.update_one(doc! {"_id": 5}, doc! {"$inc": {"k": 1}}).session(session).await?;
            coll.delete_one(doc! {"_id": 6}).session(session).await?;
            coll.insert_one(&doc! {"_id": 60, "k": 600, "n": 1}).session(session).await?;
        }
        (writes, at) if writes == at => {
            coll.update_one(doc! {"_id": 8}, doc! {"$set": {"z": 1}}).session(session).await?;
        }
        _ => {}
    }
    Ok(())
}

async fn act(rival: Rival, read: &Read, place: &Place) {
    let (client, coll) = match rival {
        Rival::ChangesAsSibling => (&place.client, &place.coll),
        _ => (&place.rival, &place.others),
    };
    let options = TransactionOptions { isolation: Some(Isolation::ReadCommitted), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    match rival {
        Rival::Nothing => {}
        Rival::Beside => {
            coll.update_one(doc! {"_id": 7}, doc! {"$set": {"z": 1}}).session(&mut session).await.unwrap();
        }
        Rival::Changes | Rival::ChangesAsSibling => {
            let change = if matches_later(read) {
                doc! {"$set": {"k": 1_035}}
            } else {
                doc! {"$inc": {"k": 5}}
            };
            coll.update_one(doc! {"_id": 3}, change).session(&mut session).await.unwrap();
        }
        Rival::Inserts => {
            let k = if matches_later(read) { 1_036 } else { 35 };
            coll.insert_one(&doc! {"_id": 99, "k": k, "n": 1}).session(&mut session).await.unwrap();
        }
    }
    session.commit().await.unwrap();
}

/// Reads of what is not there see a document that gets there.
fn matches_later(read: &Read) -> bool {
    read.name.contains("changes nothing")
}

/// Fields that a `$lookup` looks up are not known. Where it shows the transaction's own writes, all
/// of the collection goes into it.
fn rests_on_all(rival: Rival, read: &Read, writes: Writes) -> bool {
    let sees_own = matches!(writes, Writes::Before | Writes::Within);
    rival == Rival::Beside && sees_own && read.name.contains("$lookup")
}

/// Returns true if this rival makes another answer of the read.
fn matters(rival: Rival, read: &Read) -> bool {
    match rival {
        Rival::Nothing | Rival::Beside => false,
        // The count is the same.
        Rival::Changes | Rival::ChangesAsSibling => read.name != "count",
        Rival::Inserts => read.shows_range,
    }
}

async fn one(clients: &(Client, Client), isolation: Isolation, read: &Read, writes: Writes, rival: Rival) {
    let place = place(clients).await;
    let mut session =
        place.client.session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() });
    session.begin().unwrap();
    let done = async {
        write(writes, Writes::Before, &place.coll, &mut session).await?;
        (read.run)(&place.coll, &mut session).await?;
        act(rival, read, &place).await;
        write(writes, Writes::After, &place.coll, &mut session).await?;
        session.commit().await
    };
    let done = done.await;
    let case = format!("{isolation:?}, {}, writes {writes:?}, rival {rival:?}", read.name);
    // One document that was read by its `_id`, and nothing else, is of one moment whatever comes
    // after.
    let exempt = writes == Writes::Nothing && read.name.starts_with("find_one") && isolation == Isolation::Snapshot;
    match done {
        Ok(()) => assert!(!matters(rival, read) || exempt, "committed: {case}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{case}: {error}");
            assert!(matters(rival, read) || rests_on_all(rival, read, writes), "refused: {case}: {error}");
        }
    }
}

/// Every kind of read beside every rival, in transactions that write so: at the two levels in
/// turns; with `MONGOTX_KINDS_ALL`, at both.
async fn all_kinds(writes: Writes) {
    let clients = (quiet::connect(quiet::options()).await, quiet::connect(quiet::options()).await);
    let are_both_asked_for = std::env::var_os("MONGOTX_KINDS_ALL").is_some();
    // An odd number of rivals: each meets both levels.
    let mut turn = writes as usize;
    for read in reads::all() {
        for rival in RIVALS {
            let levels = if are_both_asked_for { &LEVELS[..] } else { &LEVELS[turn % 2..][..1] };
            for isolation in levels {
                one(&clients, *isolation, &read, writes, rival).await;
            }
            turn += 1;
        }
    }
}

macro_rules! cases {
    ($($name:ident: $writes:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            all_kinds($writes).await;
        })*
    };
}

cases! {
    reads_of_a_transaction_that_writes_nothing: WRITES[0];
    reads_after_a_write_beside_them: WRITES[1];
    reads_before_a_write_beside_them: WRITES[2];
    reads_between_writes_to_what_they_show: WRITES[3];
}
