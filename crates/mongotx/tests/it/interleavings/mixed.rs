//! Transactions of different levels against each other: each gets what its own level promises.

use mongotx::Isolation::{ReadCommitted, RepeatableRead};
use txcheck::Anomaly;

use super::levels::{Begins, all_anomalies, forbids};

/// T1 at repeatable read, T2 at read committed: what happens to T1 alone is what its level allows.
async fn reader_is_protected(texts: [&str; 2]) {
    let found = all_anomalies(&[RepeatableRead, ReadCommitted], &texts, Begins::Anybody).await;
    for (anomaly, example) in found {
        assert!(!forbids(RepeatableRead, anomaly), "{anomaly}: {example}");
    }
}

#[tokio::test]
async fn repeatable_reads_stay_repeatable_against_writers_at_read_committed() {
    reader_is_protected(["R(A) R(A,B) C", "W(A,B) C"]).await;
}

#[tokio::test]
async fn updates_of_repeatable_read_are_not_lost_to_writers_at_read_committed() {
    reader_is_protected(["R(A) W(A) C", "W(A) C"]).await;
}

#[tokio::test]
async fn scans_of_repeatable_read_stay_as_they_were_against_deletions_at_read_committed() {
    reader_is_protected(["P() P() C", "D(A) W(B) C"]).await;
}

#[tokio::test]
async fn one_transaction_at_repeatable_read_does_not_protect_the_other() {
    let found = all_anomalies(&[RepeatableRead, ReadCommitted], &["W(A) C", "R(A) R(A) C"], Begins::Anybody).await;
    assert!(found.contains_key(&Anomaly::NonRepeatableRead), "{found:?}");
}
