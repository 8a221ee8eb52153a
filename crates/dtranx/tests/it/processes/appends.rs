//! Tests of lists that clients append to and read in transactions. A checker of isolation judges
//! their history.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use dtranx::client::{Client, Error, Transaction};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::limit::Limit;
use crate::processes::history::{End, Op, Recorder};
use crate::processes::trio::{REQUEST_MS, Trio};

const LISTS: u64 = 6;
/// Number of appends per list before the next lists are used. Short lists keep the check small.
const APPENDS_PER_LIST: u64 = 60;

fn read(tranx: &mut Transaction, list: u64) -> Result<Vec<u64>, Error> {
    let value: Option<Bytes> = tranx.get(format!("list{list}"))?;
    Ok(value.map_or(Vec::new(), |value| {
        value.chunks_exact(8).map(|number| u64::from_be_bytes(*number.first_chunk().unwrap())).collect()
    }))
}

fn carry_out(tranx: &mut Transaction, ops: &[Op]) -> Result<Vec<Op>, Error> {
    let mut done = Vec::new();
    for op in ops {
        match op {
            Op::Append(list, value) => {
                let mut values = read(tranx, *list)?;
                values.push(*value);
                let bytes: Vec<u8> = values.iter().flat_map(|number| number.to_be_bytes()).collect();
                tranx.put(format!("list{list}"), bytes)?;
                done.push(op.clone());
            }
            Op::Read(list, _) => done.push(Op::Read(*list, Some(read(tranx, *list)?))),
        }
    }
    Ok(done)
}

fn plan(random: &mut StdRng, recorder: &Recorder) -> Vec<Op> {
    (0..random.random_range(1..4))
        .map(|_| {
            let value = recorder.value();
            let list = random.random_range(0..LISTS) + value / (APPENDS_PER_LIST * LISTS) * LISTS;
            if random.random_bool(0.5) { Op::Append(list, value) } else { Op::Read(list, None) }
        })
        .collect()
}

fn work(client: &Client, seed: u64, recorder: &Recorder, over: &AtomicBool) {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut process, mut done) = (recorder.process(), 0);
    // Each client completes at least 20 transactions, on a slow machine after the servers have
    // recovered.
    while !over.load(Ordering::Relaxed) || done < 20 {
        let ops = plan(&mut random, recorder);
        recorder.begin(process, &ops);
        let end = match client.transact(|tranx| carry_out(tranx, &ops)) {
            Ok(ops) => {
                done += 1;
                End::Done(ops)
            }
            Err(Error::Unknown(_)) => End::Unknown,
            Err(Error::Unavailable { .. } | Error::GivenUp { .. } | Error::Refused(_)) => End::NotDone,
            Err(error) => panic!("{error}"),
        };
        recorder.end(process, &ops, &end);
        if matches!(end, End::Unknown) {
            process = recorder.process();
        }
    }
}

#[test]
fn torment_list_appends_are_strictly_serializable() {
    let _limit = Limit::of(300, "answer to a transaction");
    torment(Trio::start("persistent-memory"));
}

#[test]
fn torment_list_appends_to_a_group_are_strictly_serializable() {
    let _limit = Limit::of(300, "answer to a transaction");
    torment(Trio::group("persistent-memory"));
}

fn torment(mut trio: Trio) {
    let clients = (0..4).map(|_| trio.client(REQUEST_MS)).collect();
    let reader = trio.client(20_000);
    append_and_judge(clients, &reader, || trio.torment());
}

/// Lets clients append to lists and read them while `torment` runs, and judges what they have seen
/// and what is there at the end.
pub(crate) fn append_and_judge(clients: Vec<Client>, reader: &Client, torment: impl FnOnce()) {
    let recorder = Recorder::default();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (client, seed) in clients.into_iter().zip(0..) {
            let (recorder, over) = (&recorder, &over);
            scope.spawn(move || work(&client, seed, recorder, over));
        }
        torment();
        over.store(true, Ordering::Relaxed);
    });
    // The final contents of all lists are part of the history.
    let last = recorder.value() / (APPENDS_PER_LIST * LISTS) * LISTS + LISTS;
    for list in 0..last {
        let (process, ops) = (recorder.process(), vec![Op::Read(list, None)]);
        recorder.begin(process, &ops);
        let done = reader.transact(|tranx| carry_out(tranx, &ops)).unwrap();
        recorder.end(process, &ops, &End::Done(done));
    }
    recorder.judge();
}
