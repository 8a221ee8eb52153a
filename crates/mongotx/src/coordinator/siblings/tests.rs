//! The table alone, on a clock that stands still while nothing waits.

use std::time::Duration;

use protocol::ClientId;
use tokio::time::Instant;

use super::{claim::MOMENT, *};

fn transactions<const N: usize>() -> (Arc<Siblings>, [Claims; N]) {
    let siblings = Arc::<Siblings>::default();
    let claims = |at| Claims::new(&siblings, TxId { client: ClientId([1; 12]), seq: at as u64 });
    let all = std::array::from_fn(claims);
    (siblings, all)
}

fn ns() -> Namespace {
    Namespace::parse_namespace("db.c").unwrap()
}

async fn claim<'a>(claims: &'a Claims, id: u8, wait: Duration) -> Claimed<'a> {
    claims.claim(&ns(), vec![id], Instant::now() + wait, |_| {}).await
}

const NO: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(3_600);

async fn hold(claims: &Claims, id: u8) {
    let Claimed::Alone(claim, false) = claim(claims, id, NO).await else { panic!("{id} is not free") };
    claim.keep();
}

fn is_rival(claimed: &Claimed<'_>, seq: u64) -> bool {
    matches!(claimed, Claimed::Rival(rival) if rival.seq == seq)
}

#[tokio::test(start_paused = true)]
async fn a_held_document_is_a_conflict_at_once_for_who_does_not_wait() {
    let (_, [a, b]) = transactions();
    hold(&a, 1).await;
    let start = Instant::now();
    assert!(is_rival(&claim(&b, 1, NO).await, 0));
    assert_eq!(start.elapsed(), Duration::ZERO);
    hold(&b, 2).await;
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_get_it_in_turn() {
    let (siblings, [a, b, c]) = transactions();
    hold(&a, 1).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let wait = |who: Claims, order: Arc<Mutex<Vec<u64>>>| async move {
        let Claimed::Alone(claim, true) = claim(&who, 1, LONG).await else { panic!("not its turn") };
        claim.keep();
        order.lock().unwrap().push(who.0.owner.id.seq);
    };
    assert!(!a.is_wanted());
    let second = tokio::spawn(wait(b.clone(), Arc::clone(&order)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(a.is_wanted() && !b.is_wanted());
    drop(b);
    let third = tokio::spawn(wait(c, Arc::clone(&order)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(a);
    second.await.unwrap();
    third.await.unwrap();
    assert_eq!(*order.lock().unwrap(), [1, 2]);
    assert!(siblings.lock().entries.is_empty() && siblings.lock().waits.is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_that_would_wait_for_each_other_are_found_at_once() {
    let (_, [a, b, c]) = transactions();
    hold(&a, 1).await;
    hold(&b, 2).await;
    hold(&c, 3).await;
    let (first, second) = (a.clone(), b.clone());
    tokio::spawn(async move { drop(claim(&first, 2, LONG).await) });
    tokio::spawn(async move { drop(claim(&second, 3, LONG).await) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    assert!(is_rival(&claim(&c, 1, LONG).await, 0), "c waits for a, which waits for b, which waits for c");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_not_locked_after_all_is_handed_on() {
    let (_, [a, b]) = transactions();
    let Claimed::Alone(trying, _) = claim(&a, 1, NO).await else { panic!("not free") };
    let other = b.clone();
    let waiting = tokio::spawn(async move { matches!(claim(&other, 1, NO).await, Claimed::Alone(_, true)) });
    tokio::time::sleep(MOMENT / 2).await;
    drop(trying);
    assert!(waiting.await.unwrap(), "it waits a moment while nothing is known");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_ends_is_waited_for_a_moment_and_no_longer() {
    let (_, [a, b]) = transactions();
    hold(&a, 1).await;
    a.ending();
    let start = Instant::now();
    assert!(matches!(claim(&b, 1, NO).await, Claimed::Ask), "the server is asked");
    assert!(start.elapsed() >= MOMENT && start.elapsed() < 2 * MOMENT, "{:?}", start.elapsed());
    drop(a);
    hold(&b, 1).await;
}

#[test]
fn a_transaction_is_alone_when_no_other_one_runs_that_is_not_about_to_end() {
    let (_, [a, b, c]) = transactions();
    let copy = b.clone();
    b.ending();
    copy.ending();
    drop((b, copy));
    assert!(!a.are_alone(), "one runs");
    drop(c);
    assert!(a.are_alone(), "each has ended once");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_taken_over_at_once_and_by_name() {
    let (siblings, [a, b, c]) = transactions();
    hold(&a, 1).await;
    hold(&a, 2).await;
    a.leave(|_| false);
    let Claimed::Alone(claim, false) = claim(&b, 1, NO).await else { panic!("it is left") };
    assert_eq!(claim.left().map(|left| left.seq), Some(0));
    claim.keep();
    assert!(is_rival(&self::claim(&c, 1, NO).await, 1), "it has a new holder");
    drop(a);
    assert!(is_rival(&self::claim(&c, 1, NO).await, 1), "and keeps it when the first is finished");
    assert!(!siblings.lock().entries.contains_key(&(ns(), vec![2])), "what no transaction wanted is free");
    drop(b);
    assert!(siblings.lock().entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_what_is_left() {
    let (_, [a, b]) = transactions();
    hold(&a, 1).await;
    let other = b.clone();
    let waiting = tokio::spawn(async move {
        let Claimed::Alone(claim, true) = claim(&other, 1, LONG).await else { panic!("not its turn") };
        claim.left().map(|left| left.seq)
    });
    tokio::time::sleep(MOMENT).await;
    a.leave(|_| false);
    assert_eq!(waiting.await.unwrap(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn what_is_finished_is_not_named_any_more() {
    let (_, [a, b]) = transactions();
    hold(&a, 1).await;
    a.leave(|_| false);
    let Claimed::Alone(claim, _) = claim(&b, 1, NO).await else { panic!("it is left") };
    drop(a);
    assert_eq!(claim.left(), None);
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_without_a_claim_is_held_and_left_like_any_other() {
    let (siblings, [a, b, c]) = transactions();
    a.took(&ns(), vec![1]);
    assert!(is_rival(&claim(&b, 1, NO).await, 0));
    a.leave(|_| false);
    assert_eq!(b.left_in(&ns()), [a.0.owner.id]);
    b.took(&ns(), vec![1]);
    assert!(is_rival(&claim(&c, 1, NO).await, 1));
    drop(a);
    assert!(b.left_in(&ns()).is_empty(), "it is finished");
    assert!(is_rival(&claim(&c, 1, NO).await, 1));
    drop(b);
    assert!(siblings.lock().entries.is_empty() && siblings.lock().left.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_somebody_tries_to_lock_is_not_taken_from_it() {
    let (siblings, [a, b]) = transactions();
    let Claimed::Alone(trying, _) = claim(&a, 1, NO).await else { panic!("not free") };
    b.took(&ns(), vec![1]);
    drop(trying);
    assert!(siblings.lock().entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_until_it_is_finished_is_not_left() {
    let (_, [a, b]) = transactions();
    hold(&a, 1).await;
    a.ending();
    a.leave(|_| true);
    for wait in [NO, MOMENT, LONG] {
        let start = Instant::now();
        assert!(matches!(claim(&b, 1, wait).await, Claimed::Ask), "it is committed, and no rival");
        assert_eq!(start.elapsed(), MOMENT);
    }
    drop(a);
    hold(&b, 1).await;
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_waiting_leaves_nothing() {
    let (siblings, [a, b]) = transactions();
    hold(&a, 1).await;
    assert!(is_rival(&claim(&b, 1, Duration::from_secs(1)).await, 0));
    let dropped = tokio::time::timeout(Duration::from_secs(1), claim(&b, 1, LONG)).await;
    assert!(dropped.is_err());
    assert!(siblings.lock().waits.is_empty() && siblings.lock().entries[&(ns(), vec![1])].queue.is_empty());
    drop(a);
    assert!(siblings.lock().entries.is_empty());
}

/// The document is never held for long, and always by another transaction.
#[tokio::test(start_paused = true)]
async fn who_was_ready_to_wait_and_has_waited_gets_a_conflict() {
    let (_, [a, b, c]) = transactions();
    let Claimed::Alone(_tried, false) = claim(&a, 1, NO).await else { panic!("it is free") };
    let start = Instant::now();
    assert!(is_rival(&claim(&b, 1, MOMENT * 3).await, 0));
    assert_eq!(start.elapsed(), MOMENT * 3);
    assert!(matches!(claim(&c, 1, NO).await, Claimed::Ask), "who is not ready to wait asks the server after a moment");
    assert_eq!(start.elapsed(), MOMENT * 4);
}
