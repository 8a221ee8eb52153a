//! Histories of three transactions: what two of them cannot show.

use mongotx::Isolation::{ReadCommitted, RepeatableRead, Serializable, Snapshot};
use txcheck::Anomaly::{G2, G2Item, GSingle, NonRepeatableRead, Phantom};

use super::levels::{check, check_ring};

/// Three writers of one document, of which one rolls back.
const WRITERS: [&str; 3] = ["W(A) C", "W(A) A", "W(A) C"];
/// Two writers in a row and a reader between and beyond them.
const READER: [&str; 3] = ["W(A) C", "W(A) C", "R(A) R(A) C"];
/// The reader that makes write skew of two into an anomaly of three: the read-only transaction's.
const READ_ONLY: [&str; 3] = ["R(A) W(B) C", "W(A) C", "R(A,B) C"];
/// A ring: each reads what another one writes.
const RING: [&str; 3] = ["R(A) W(B) C", "R(B) W(C) C", "R(C) W(A) C"];
/// One transaction deletes what another one changes while a third one looks.
const DELETE: [&str; 3] = ["D(A) C", "W(A) C", "P() C"];
/// Two try to insert the same document, one of them in vain, while a third one looks twice.
const INSERT: [&str; 3] = ["I(C) A", "I(C) C", "P() P() C"];

cells! {
    three_writers_read_committed: ReadCommitted, WRITERS, [];
    three_writers_repeatable_read: RepeatableRead, WRITERS, [];
    two_writers_and_a_reader_read_committed: ReadCommitted, READER, [NonRepeatableRead, GSingle];
    two_writers_and_a_reader_repeatable_read: RepeatableRead, READER, [];
    read_only_anomaly_read_committed_allows: ReadCommitted, READ_ONLY, [GSingle, G2Item];
    read_only_anomaly_repeatable_read_forbids: RepeatableRead, READ_ONLY, [];
    deletion_under_a_scan_read_committed: ReadCommitted, DELETE, [];
    deletion_under_a_scan_repeatable_read: RepeatableRead, DELETE, [];
    insertion_under_a_scan_read_committed_allows_phantoms: ReadCommitted, INSERT, [Phantom, G2];
    insertion_under_a_scan_repeatable_read_allows_phantoms: RepeatableRead, INSERT, [Phantom, G2];
    three_writers_snapshot: Snapshot, WRITERS, [];
    three_writers_serializable: Serializable, WRITERS, [];
    two_writers_and_a_reader_snapshot: Snapshot, READER, [];
    two_writers_and_a_reader_serializable: Serializable, READER, [];
    read_only_anomaly_snapshot_forbids_unless_commits_overlap: Snapshot, READ_ONLY, [];
    read_only_anomaly_serializable: Serializable, READ_ONLY, [];
    deletion_under_a_scan_snapshot: Snapshot, DELETE, [];
    deletion_under_a_scan_serializable: Serializable, DELETE, [];
    insertion_under_a_scan_snapshot: Snapshot, INSERT, [];
    insertion_under_a_scan_serializable: Serializable, INSERT, [];
}

#[tokio::test]
async fn write_skew_of_three_read_committed_allows() {
    check_ring(ReadCommitted, &RING, &[G2Item]).await;
}

#[tokio::test]
async fn write_skew_of_three_repeatable_read_forbids() {
    check_ring(RepeatableRead, &RING, &[]).await;
}

#[tokio::test]
async fn write_skew_of_three_snapshot_forbids_unless_commits_overlap() {
    check_ring(Snapshot, &RING, &[]).await;
}

#[tokio::test]
async fn write_skew_of_three_serializable_forbids() {
    check_ring(Serializable, &RING, &[]).await;
}
