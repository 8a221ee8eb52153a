//! The anomalies that each level forbids, and the comparison of that with every interleaving.

use std::{collections::BTreeMap, time::Instant};

use futures_util::{StreamExt, stream};
use mongotx::Isolation;
use txcheck::{
    Anomaly, History, Plan, Report, Tx, history::Event, interleave::is_serial, interleavings, judge, parse_plans,
    plan::initial, run_plans,
};

use super::executor::{Clients, Run, Setting};

/// More interleavings than this are a sign that a history should be shorter.
const MOST: usize = 2_000;
/// Interleavings under way at a time, each on documents of its own.
const AT_A_TIME: usize = 8;

/// Anomalies that no level allows.
const NEVER: [Anomaly; 9] = [
    Anomaly::DirtyWrite,
    Anomaly::DirtyRead,
    Anomaly::G0,
    Anomaly::G1a,
    Anomaly::G1b,
    Anomaly::G1c,
    Anomaly::StaleRead,
    Anomaly::MissedOwnWrite,
    Anomaly::LostWrite,
];
/// Anomalies that repeatable read forbids besides.
const REPEATABLE: [Anomaly; 4] = [Anomaly::LostUpdate, Anomaly::NonRepeatableRead, Anomaly::GSingle, Anomaly::G2Item];

/// Anomalies that snapshot forbids besides.
const SNAPSHOT: [Anomaly; 4] = [Anomaly::LostUpdate, Anomaly::NonRepeatableRead, Anomaly::GSingle, Anomaly::Phantom];

/// Returns true if the anomaly may not happen at this level.
pub(crate) fn forbids(level: Isolation, anomaly: Anomaly) -> bool {
    let besides = match level {
        Isolation::RepeatableRead => REPEATABLE.contains(&anomaly),
        Isolation::Snapshot => SNAPSHOT.contains(&anomaly),
        Isolation::Serializable => true,
        _ => false,
    };
    NEVER.contains(&anomaly) || besides
}

/// Runs every interleaving of a history in every setting at one level. What the level forbids never
/// happens; exactly `shown` of what it allows does happen, in one interleaving at least.
pub(crate) async fn check(level: Isolation, texts: &[&str], shown: &[Anomaly]) {
    compare(level, texts, shown, all_anomalies(&vec![level; texts.len()], texts, Begins::Anybody).await);
}

/// Checks a ring of transactions, in which it does not matter which one begins.
pub(crate) async fn check_ring(level: Isolation, texts: &[&str], shown: &[Anomaly]) {
    compare(level, texts, shown, all_anomalies(&vec![level; texts.len()], texts, Begins::First).await);
}

/// The interleavings that are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// Every order, whichever transaction begins.
    Anybody,
    /// Orders that T1 begins; the others are the same with other names.
    First,
}

fn compare(level: Isolation, texts: &[&str], shown: &[Anomaly], found: BTreeMap<Anomaly, String>) {
    for (anomaly, example) in &found {
        assert!(!forbids(level, *anomaly), "{level:?} forbids {anomaly}: {example}");
        assert!(shown.contains(anomaly), "{anomaly} was not expected of this history: {example}");
    }
    for anomaly in shown {
        assert!(found.contains_key(anomaly), "{level:?} allows {anomaly}, and no interleaving of {texts:?} shows it");
    }
}

/// Every anomaly in any interleaving, each with an example.
pub(crate) async fn all_anomalies(levels: &[Isolation], texts: &[&str], begins: Begins) -> BTreeMap<Anomaly, String> {
    let plans = parse_plans(texts).unwrap();
    let mut orders = interleavings(&plans, MOST).unwrap();
    orders.retain(|order| begins == Begins::Anybody || order.first() == Some(&0));
    if orders.len() > VERY_LONG && !are_all_asked_for() {
        orders = orders.into_iter().step_by(STRIDE).collect();
    }
    let start = Instant::now();
    let mut found = BTreeMap::new();
    let settings = settings_for(orders.len(), levels);
    for setting in settings {
        let clients = Clients::connect(*setting, plans.len()).await;
        let (clients, plans) = (&clients, &plans);
        let mut judged = stream::iter(orders.iter().enumerate())
            .map(|(number, order)| run_one(clients, number, levels, plans, order))
            .buffer_unordered(AT_A_TIME);
        while let Some((history, report)) = judged.next().await {
            for (anomaly, example) in report.iter() {
                let text = || format!("{example}, in {setting:?}\n{history}");
                found.entry(anomaly).or_insert_with(text);
            }
        }
        drop(judged);
        clients.assert_clean().await;
    }
    let runs = orders.len() * settings.len();
    println!("{levels:?} {texts:?}: {} interleavings, {runs} runs, {:?}", orders.len(), start.elapsed());
    found
}

/// Lists of more interleavings run in the hardest setting only, without `MONGOTX_INTERLEAVINGS_ALL`
/// …
const LONG: usize = 20;
/// … and of lists of more than these every eighth is enough.
const VERY_LONG: usize = 60;
const STRIDE: usize = 8;

/// Every setting; the hardest one only for the long lists, and where read committed, whose reads
/// and writes they are, has been through all of them: the clients know of each other only what is
/// stored, and meet unfinished documents.
fn settings_for(orders: usize, levels: &[Isolation]) -> &'static [Setting] {
    let is_long = orders > LONG && !are_all_asked_for();
    if is_long || levels.iter().all(|level| level.validates()) { &[Setting::SlowFinish] } else { &Setting::ALL }
}

fn are_all_asked_for() -> bool {
    std::env::var_os("MONGOTX_INTERLEAVINGS_ALL").is_some()
}

async fn run_one(
    clients: &Clients,
    number: usize,
    levels: &[Isolation],
    plans: &[Plan],
    order: &[usize],
) -> (History, Report) {
    let mut executor = Run::start(clients, number, levels, initial(plans)).await;
    let history = run_plans(&mut executor, plans, order).await;
    let refused = history.refused().count();
    let was_disturbed = history.events.iter().any(|(_, event)| is_of_others(event));
    assert!(refused < plans.len() || was_disturbed, "somebody gets through:\n{history}");
    if is_serial(order) && !was_disturbed {
        assert_eq!(refused, 0, "no rival was in the way in {:?}:\n{history}", clients.setting);
    }
    let report = judge(&as_promised(&history, levels));
    for (anomaly, example) in judge(&history).iter().filter(|(anomaly, _)| NEVER.contains(anomaly)) {
        assert!(report.iter().any(|(found, _)| found == anomaly), "{anomaly}: {example}\n{history}");
    }
    (history, report)
}

/// Returns true if it was refused for what is in the collection, or for what the runs beside this
/// one do there. They commit all the while, and a machine that is slow enough may find them all
/// between two looks.
fn is_of_others(event: &Event) -> bool {
    matches!(event, Event::Refused(why) if why.contains("E11000") || why.contains("while it was validated"))
}

/// At levels that validate reads at the commit, nothing is promised about the reads of a
/// transaction that is not committed.
fn as_promised(history: &History, levels: &[Isolation]) -> History {
    let counts = |tx: &Tx| history.is_committed(*tx) || !levels[tx.0].validates();
    let is_read = |event: &Event| matches!(event, Event::Read(..) | Event::Scan(_));
    let mut promised = history.clone();
    promised.events.retain(|(tx, event)| counts(tx) || !is_read(event));
    promised
}
