//! Runs the steps of one interleaving, one at a time, and records what came of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
};

use crate::{
    history::{Event, History, Log, Tx, Value},
    plan::{Item, Op, Plan, initial},
};

/// The database refused a step because of a rival, and rolled the transaction back; why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Something that can run transactions. A step that fails for any other reason than a rival should
/// panic.
///
/// Items are stored so that every write appends its value, and a read answers all values in their
/// order.
pub trait Executor {
    /// Reads one item by id.
    fn read(&mut self, tx: Tx, item: Item) -> impl Future<Output = Result<Option<Log>, Refused>>;
    /// Reads everything by a predicate.
    fn scan(&mut self, tx: Tx) -> impl Future<Output = Result<BTreeMap<Item, Log>, Refused>>;
    /// Appends `value`, if the item is there and (when `still` is given) its last value is that
    /// one. Was it?
    fn write(
        &mut self,
        tx: Tx,
        item: Item,
        value: Value,
        still: Option<Value>,
    ) -> impl Future<Output = Result<bool, Refused>>;
    /// Inserts an item with this one value, if it is not there. Was it inserted?
    fn insert(&mut self, tx: Tx, item: Item, value: Value) -> impl Future<Output = Result<bool, Refused>>;
    /// Deletes an item. Was it there?
    fn delete(&mut self, tx: Tx, item: Item) -> impl Future<Output = Result<bool, Refused>>;
    /// Commits the transaction, or reports that it was refused.
    fn commit(&mut self, tx: Tx) -> impl Future<Output = Result<(), Refused>>;
    /// Rolls the transaction back; it cannot be refused.
    fn abort(&mut self, tx: Tx) -> impl Future<Output = ()>;
    /// Everything there is when all transactions have ended, read outside of any.
    fn last(&mut self) -> impl Future<Output = BTreeMap<Item, Log>>;
}

/// Runs `plans` in this order of turns. A transaction that is refused a step does nothing more; the
/// others go on.
pub async fn run_plans<E: Executor>(executor: &mut E, plans: &[Plan], order: &[usize]) -> History {
    let mut history = History { initial: initial(plans), ..History::default() };
    let mut next = vec![0; plans.len()];
    let mut over = BTreeSet::new();
    let mut seen = BTreeMap::new();
    for turn in order {
        let (tx, step) = (Tx(*turn), next[*turn]);
        next[*turn] += 1;
        if over.contains(&tx) {
            continue;
        }
        let event = take_step(executor, tx, step, plans[*turn][step], &mut seen).await.unwrap_or_else(|refused| {
            over.insert(tx);
            Event::Refused(refused.0)
        });
        history.events.push((tx, event));
    }
    history.last = executor.last().await;
    history
}

/// `seen`: the last value that each transaction has read of each item.
async fn take_step<E: Executor>(
    executor: &mut E,
    tx: Tx,
    step: usize,
    op: Op,
    seen: &mut BTreeMap<(Tx, Item), Value>,
) -> Result<Event, Refused> {
    let value = Value::of(tx, step);
    let event = match op {
        Op::Read(item) => Event::Read(item, executor.read(tx, item).await?),
        Op::Scan => Event::Scan(executor.scan(tx).await?),
        Op::Write(item) => matched(executor.write(tx, item, value, None).await?, item, Event::Wrote(item, value)),
        Op::WriteIfSame(item) => {
            let still = seen.get(&(tx, item)).copied();
            matched(executor.write(tx, item, value, still).await?, item, Event::Wrote(item, value))
        }
        Op::Insert(item) => matched(executor.insert(tx, item, value).await?, item, Event::Inserted(item, value)),
        Op::Delete(item) => matched(executor.delete(tx, item).await?, item, Event::Deleted(item)),
        Op::Commit => executor.commit(tx).await.map(|()| Event::Committed)?,
        Op::Abort => {
            executor.abort(tx).await;
            Event::Aborted
        }
    };
    let found = match &event {
        Event::Read(item, log) => vec![(*item, log.as_ref())],
        Event::Scan(found) => found.iter().map(|(item, log)| (*item, Some(log))).collect(),
        _ => Vec::new(),
    };
    let last_values = found.into_iter().filter_map(|(item, log)| Some(((tx, item), *log?.last()?)));
    seen.extend(last_values);
    Ok(event)
}

fn matched(done: bool, item: Item, event: Event) -> Event {
    if done { event } else { Event::NoMatch(item) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;
    use crate::{interleave::interleavings, plan::parse_plans};

    /// A store without isolation: all transactions write in place, and rolling back does nothing.
    /// The steps of the transaction `refuse` are refused.
    #[derive(Default)]
    pub(crate) struct InPlace {
        pub(crate) items: BTreeMap<Item, Log>,
        pub(crate) refuse: Option<Tx>,
    }

    impl InPlace {
        fn check(&self, tx: Tx) -> Result<(), Refused> {
            if self.refuse == Some(tx) { Err(Refused("refused on request".to_owned())) } else { Ok(()) }
        }
    }

    impl Executor for InPlace {
        async fn read(&mut self, tx: Tx, item: Item) -> Result<Option<Log>, Refused> {
            self.check(tx)?;
            Ok(self.items.get(&item).cloned())
        }

        async fn scan(&mut self, tx: Tx) -> Result<BTreeMap<Item, Log>, Refused> {
            self.check(tx)?;
            Ok(self.items.clone())
        }

        async fn write(&mut self, tx: Tx, item: Item, value: Value, still: Option<Value>) -> Result<bool, Refused> {
            self.check(tx)?;
            let log = self.items.get_mut(&item).filter(|log| still.is_none() || log.last().copied() == still);
            Ok(log.map(|log| log.push(value)).is_some())
        }

        async fn insert(&mut self, _: Tx, item: Item, value: Value) -> Result<bool, Refused> {
            Ok(self.items.try_insert_log(item, vec![value]))
        }

        async fn delete(&mut self, _: Tx, item: Item) -> Result<bool, Refused> {
            Ok(self.items.remove(&item).is_some())
        }

        async fn commit(&mut self, _: Tx) -> Result<(), Refused> {
            Ok(())
        }

        async fn abort(&mut self, _: Tx) {}

        async fn last(&mut self) -> BTreeMap<Item, Log> {
            self.items.clone()
        }
    }

    trait TryInsert {
        fn try_insert_log(&mut self, item: Item, log: Log) -> bool;
    }

    impl TryInsert for BTreeMap<Item, Log> {
        fn try_insert_log(&mut self, item: Item, log: Log) -> bool {
            let free = !self.contains_key(&item);
            self.entry(item).or_insert(log);
            free
        }
    }

    /// Polls a future once: no future in these tests ever waits.
    pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    /// The histories of all interleavings without any isolation.
    pub(crate) fn without_isolation(texts: &[&str]) -> Vec<History> {
        let plans = parse_plans(texts).unwrap();
        let run_one = |order: &Vec<usize>| {
            let items = initial(&plans).into_iter().map(|item| (item, vec![Value::INITIAL])).collect();
            at_once(run_plans(&mut InPlace { items, refuse: None }, &plans, order))
        };
        interleavings(&plans, 10_000).unwrap().iter().map(run_one).collect()
    }

    #[test]
    fn each_step_is_recorded_with_what_it_saw() {
        let all = without_isolation(&["R(A) W(A) I(B) D(A) P() C"]);
        let (read, scanned) = (&all[0].events[0].1, &all[0].events[4].1);
        assert_eq!(*read, Event::Read(Item('A'), Some(vec![Value(0)])));
        assert_eq!(*scanned, Event::Scan([(Item('B'), vec![Value(103)])].into()));
        assert_eq!(all[0].events[1], (Tx(0), Event::Wrote(Item('A'), Value(102))));
    }

    #[test]
    fn a_refused_transaction_does_nothing_more() {
        let plans = parse_plans(&["R(A) C", "R(A) W(A) C"]).unwrap();
        let mut executor = InPlace { refuse: Some(Tx(1)), ..InPlace::default() };
        let history = at_once(run_plans(&mut executor, &plans, &[1, 0, 1, 0, 1]));
        assert_eq!(history.events.len(), 3);
        assert_eq!(history.refused().collect::<Vec<_>>(), [Tx(1)]);
        assert!(history.is_committed(Tx(0)) && !history.is_committed(Tx(1)));
    }

    #[test]
    fn a_conditional_write_demands_what_was_read() {
        let histories = without_isolation(&["R(A) U(A) C", "W(A) C"]);
        let spoiled = histories.iter().find(|h| matches!(h.events[1].1, Event::Wrote(..)) && h.events[1].0 == Tx(1));
        assert!(spoiled.unwrap().events.contains(&(Tx(0), Event::NoMatch(Item('A')))));
    }
}
