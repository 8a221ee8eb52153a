//! The read lease step by step: which queries are given a permit, and which answers are believed.

use super::{super::demand::WORTH, *};
use crate::coordinator::request::fields::Fields;

fn process(n: u8) -> ObjectId {
    ObjectId::from_bytes([n; 12])
}

fn coll() -> Namespace {
    Namespace::new("db", "c")
}

fn id(seq: u64) -> TxId {
    TxId { client: protocol::ClientId([1; 12]), seq }
}

fn all() -> CollectionChanges {
    CollectionChanges { ns: coll(), fields: Fields::All, documents: None }
}

fn ago(time: Duration) -> Moment {
    Moment::now().earlier(time, Duration::ZERO)
}

/// A lease that is held, and in which the collection was settled in process 1.
fn held() -> (Arc<ReadLease>, u64) {
    let lease = Arc::new(ReadLease::default());
    let number = lease.begin().unwrap();
    assert_eq!(lease.renew(number, Moment::now()), Some(number));
    settle(&lease, 1);
    (lease, number)
}

fn settle(lease: &ReadLease, n: u8) {
    let ReadPermission::AfterSettling(settling) = lease.permission(&coll(), process(n)) else {
        panic!("it is not to be settled")
    };
    assert!(matches!(lease.permission(&coll(), process(n)), ReadPermission::Refused), "somebody else does it");
    settling.ended(true);
}

fn permit(lease: &ReadLease) -> Option<Permit> {
    lease.permit(&[&coll()], process(1))
}

#[test]
fn answers_are_believed_as_long_as_the_lease_is_held() {
    let (lease, number) = held();
    let given = permit(&lease).unwrap();
    assert!(lease.answers(given, &[&coll()]));
    assert_eq!(lease.renew(number, Moment::now()), Some(number));
    assert!(lease.answers(given, &[&coll()]), "a renewed lease is the same");
    lease.lose();
    assert!(!lease.answers(given, &[&coll()]) && permit(&lease).is_none());
    assert_eq!(lease.renew(number, Moment::now()), None, "this one is lost");
    assert!(!lease.is_current(number));
}

#[test]
fn a_lease_that_has_run_out_and_is_renewed_is_another_one() {
    let (lease, number) = held();
    let given = permit(&lease).unwrap();
    lease.renew(number, ago(LENGTH)).unwrap();
    assert!(lease.asked() != Lease::Held && !lease.answers(given, &[&coll()]) && permit(&lease).is_none());
    let renewed = lease.renew(number, Moment::now()).unwrap();
    assert_ne!(renewed, number);
    assert!(!lease.answers(given, &[&coll()]) && permit(&lease).is_none());
    settle(&lease, 1);
    assert!(permit(&lease).is_some());
}

#[test]
fn either_clock_ends_a_lease() {
    let (lease, number) = held();
    let suspended = Moment::now().earlier(Duration::ZERO, LENGTH);
    lease.renew(number, suspended).unwrap();
    assert!(lease.asked() != Lease::Held);
}

#[test]
fn a_collection_is_settled_in_each_server_process() {
    let (lease, _) = held();
    let given = permit(&lease).unwrap();
    assert!(matches!(lease.permission(&coll(), process(1)), ReadPermission::Granted));
    assert!(lease.permit(&[&coll()], process(2)).is_none());
    settle(&lease, 2);
    assert!(lease.permit(&[&coll()], process(2)).is_some() && permit(&lease).is_none());
    assert!(lease.answers(given, &[&coll()]), "the process is compared by who gives the permit");
}

#[test]
fn settling_that_is_given_up_is_not_tried_again_at_once() {
    let (lease, _) = held();
    drop(lease.permission(&coll(), process(2)));
    assert!(matches!(lease.permission(&coll(), process(2)), ReadPermission::Refused));
    let other = Namespace::new("db", "d");
    let ReadPermission::AfterSettling(settling) = lease.permission(&other, process(1)) else {
        panic!("it is not to be settled")
    };
    lease.lose();
    let number = lease.begin().unwrap();
    lease.renew(number, Moment::now()).unwrap();
    settling.ended(true);
    assert!(lease.permit(&[&other], process(1)).is_none(), "it was settled in another lease");
}

#[test]
fn what_is_being_decided_stands_in_the_way() {
    let (lease, _) = held();
    let before = permit(&lease).unwrap();
    let deciding = lease.deciding(id(1), vec![all()], |_, _| true);
    assert!(matches!(lease.permission(&coll(), process(1)), ReadPermission::Refused) && permit(&lease).is_none());
    deciding.over();
    assert!(!lease.answers(before, &[&coll()]), "the answer may show a part of it");
    assert!(matches!(lease.permission(&coll(), process(1)), ReadPermission::Refused), "not again at once");
    assert!(!lease.may_be_asked(&coll()), "so that queries are sent which look at decisions");
    assert!(lease.permit_beside(&coll(), process(1), FoundBy::Id, |_| false).is_some());
    let (lease, _) = held();
    drop(lease.deciding(id(1), vec![all()], |_, _| true));
    assert!(permit(&lease).is_none(), "its outcome is not known");
}

#[test]
fn only_queries_that_meet_what_is_left_have_it_finished() {
    let (lease, _) = held();
    assert!(!lease.meets(&coll(), true), "not for the first one");
    let begun = Instant::now();
    while !lease.meets(&coll(), true) {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    std::thread::sleep(Duration::from_millis(20));
    assert!(!lease.meets(&coll(), false));
}

#[test]
fn leases_are_wanted_where_many_queries_are_probed() {
    let lease = ReadLease::default();
    let wanted = |times| (0..times).filter(|_| lease.asked() == Lease::Wanted).count();
    assert_eq!(wanted(WORTH - 1), 0);
    assert_eq!(wanted(10 * WORTH), 1, "one task takes it");
    lease.ended();
    assert_eq!(wanted(WORTH), 0, "not again at once");
}

#[tokio::test]
async fn a_client_that_is_shut_down_takes_no_lease() {
    let (lease, number) = held();
    lease.close(Duration::from_secs(60)).await;
    assert!(!lease.is_current(number) && lease.asked() != Lease::Held);
    assert_eq!((lease.begin(), lease.renew(number, Moment::now())), (None, None));
    assert!((0..2 * WORTH).all(|_| lease.asked() == Lease::Absent));
}
