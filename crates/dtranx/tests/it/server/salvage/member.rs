//! The log of a member of a group: what is void is nothing, and what is not known to be committed
//! is neither sure nor lost. Who runs alone does not go on with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use dtranx::core::{ClientId, Incarnation, Key, MessageId, Record, RequestId, TranxId, Value, Write};
use dtranx::log::{Disk, LogOptions, LogReader, Position, SegmentNumber, State, TranxLog, payload, survey};
use dtranx::server::{Moment, Resolver, Server, verify};

use super::store::Store;
use crate::limit::Limit;

/// Opens the log of a store as that of a member.
fn open(store: &Store) -> TranxLog {
    let (folder, server) = (&store.config.log_folder, store.config.server.0);
    let id = survey(folder, server, None, &mut |_| Ok(())).store.unwrap();
    let options = LogOptions { store: id, is_member: true, ..LogOptions::new(server, store.config.segment_bytes) };
    TranxLog::read(Arc::new(Disk::open(folder).unwrap()), &options, &mut Skip).unwrap().log
}

/// Reads nothing.
struct Skip;

impl LogReader for Skip {
    fn state(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, _: SegmentNumber, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn uncommitted(&mut self, _: Position, _: SegmentNumber, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// An entry with a transaction of its own, which writes the key "a0".
fn entry(store: &Store, term: u64, value: &'static str) -> Vec<u8> {
    let tranx = TranxId { server: store.config.server, number: (1 << 30) + term };
    let writes = vec![Write { key: Key::new("a0").unwrap(), value: Some(Value::new(value).unwrap()) }];
    let client = ClientId { incarnation: Incarnation(1), number: 1 };
    let request = RequestId { client, message: MessageId(1) };
    let record = postcard::to_stdvec(&Record::OnePhase { tranx, writes, request }).unwrap();
    payload([&record[..]])
}

#[test]
fn only_what_is_known_to_be_committed_is_sure() {
    let _limit = Limit::of(600, "salvage of a store");
    let mut store = Store::young();
    let (whole, records) = (store.last().clone(), verify(&store.config).unwrap().records);
    let mut log = open(&store);
    let committed = log.last().index;
    let state = |term, committed| State { term, vote: None, committed };
    let next = |term| Position { term, index: committed + 1 };
    log.append_state(state(1, committed)).unwrap();
    log.append_entry(next(1), &entry(&store, 1, "void")).unwrap();
    log.append_state(state(2, committed)).unwrap();
    log.append_entry(next(2), &entry(&store, 2, "new")).unwrap();
    log.persist().unwrap();
    drop(log);

    let got = store.check("an entry is not known to be committed");
    let Moment::Before(damage) = &got.found.moment else { panic!("{:?}", got.found) };
    assert!(damage.what.contains(&format!("{} is not known to be committed", next(2))), "{damage}");
    assert_eq!((&got.sure, got.found.damages.list().len()), (&whole, 1));
    assert_eq!((got.found.newer.total, got.found.behind), (1, 1));
    let found = verify(&store.config).unwrap();
    assert_eq!((found.records, found.uncommitted), (records, 1));
    let refused = [
        Server::start(&store.config).err().unwrap().to_string(),
        Resolver::open(&store.config, &[], &BTreeSet::new()).err().unwrap().to_string(),
    ];
    assert!(refused.iter().all(|refused| refused.contains("is of the log of a member of a group")), "{refused:?}");

    let mut log = open(&store);
    log.append_state(state(2, committed + 1)).unwrap();
    log.persist().unwrap();
    log.persist().unwrap();
    drop(log);
    let mut newest = whole;
    newest.insert("a0".to_owned(), b"new".to_vec());
    store.history.push(newest);
    let got = store.check("all is committed");
    assert!(got.found.moment == Moment::Newest && got.found.is_whole(), "{:?}", got.found);
    let found = verify(&store.config).unwrap();
    assert_eq!((found.records, found.uncommitted), (records + 1, 0));
}
