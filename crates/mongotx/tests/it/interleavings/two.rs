//! Histories of two transactions: one for each anomaly, at each level.

use mongotx::Isolation::{ReadCommitted, RepeatableRead, Serializable, Snapshot};
use txcheck::Anomaly::{G2, G2Item, GSingle, LostUpdate, NonRepeatableRead, Phantom};

use super::levels::check;

const DIRTY_WRITE: [&str; 2] = ["W(A,B) C", "W(A,B) C"];
const DIRTY_WRITE_ROLLED_BACK: [&str; 2] = ["W(A,B) A", "W(A,B) C"];
const DELETE_AND_WRITE: [&str; 2] = ["D(A) C", "W(A) C"];
const TWO_INSERTS: [&str; 2] = ["I(C) A", "I(C) C"];
const ABORTED_READ: [&str; 2] = ["W(A) I(C) D(B) A", "R(A,B,C) C"];
const ABORTED_SCAN: [&str; 2] = ["W(A) I(C) D(B) A", "P() C"];
const INTERMEDIATE_READ: [&str; 2] = ["W(A) W(A) C", "R(A) P() C"];
const CIRCULAR: [&str; 2] = ["W(A) R(B) C", "W(B) R(A) C"];
const LOST: [&str; 2] = ["R(A) W(A) C", "R(A) W(A) C"];
const LOST_IF_SAME: [&str; 2] = ["R(A) U(A) C", "R(A) U(A) C"];
const REPEATED: [&str; 2] = ["R(A) R(A) C", "W(A) C"];
const REPEATED_DELETE: [&str; 2] = ["R(A) P() C", "D(A) C"];
const READ_SKEW: [&str; 2] = ["R(A,B) C", "W(A,B) C"];
const READ_SKEW_SCANS: [&str; 2] = ["P() W(B) C", "W(A,B) C"];
const WRITE_SKEW: [&str; 2] = ["R(A,B) W(A) C", "R(A,B) W(B) C"];
const WRITE_SKEW_SCANS: [&str; 2] = ["R(B) P() W(A) C", "P() W(B) C"];
const PHANTOM: [&str; 2] = ["R(A) P() P() C", "I(C) C"];
const PHANTOM_BY_ID: [&str; 2] = ["R(C) R(C) C", "I(C) C"];
const PREDICATE_SKEW: [&str; 2] = ["P() I(C) C", "P() I(D) C"];

macro_rules! cells {
    ($($name:ident: $level:expr, $history:expr, $shown:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            check($level, &$history, &$shown).await;
        })*
    };
}

cells! {
    dirty_write_read_committed_forbids: ReadCommitted, DIRTY_WRITE, [];
    dirty_write_repeatable_read_forbids: RepeatableRead, DIRTY_WRITE, [];
    dirty_write_rolled_back_read_committed_forbids: ReadCommitted, DIRTY_WRITE_ROLLED_BACK, [];
    dirty_write_rolled_back_repeatable_read_forbids: RepeatableRead, DIRTY_WRITE_ROLLED_BACK, [];
    dirty_delete_read_committed_forbids: ReadCommitted, DELETE_AND_WRITE, [];
    dirty_delete_repeatable_read_forbids: RepeatableRead, DELETE_AND_WRITE, [];
    dirty_insert_read_committed_forbids: ReadCommitted, TWO_INSERTS, [];
    dirty_insert_repeatable_read_forbids: RepeatableRead, TWO_INSERTS, [];
    dirty_and_aborted_read_read_committed_forbids: ReadCommitted, ABORTED_READ, [];
    dirty_and_aborted_read_repeatable_read_forbids: RepeatableRead, ABORTED_READ, [];
    dirty_and_aborted_scan_read_committed_forbids: ReadCommitted, ABORTED_SCAN, [];
    dirty_and_aborted_scan_repeatable_read_forbids: RepeatableRead, ABORTED_SCAN, [];
    intermediate_read_repeatable_read_forbids: RepeatableRead, INTERMEDIATE_READ, [];
    intermediate_read_read_committed_forbids: ReadCommitted, INTERMEDIATE_READ, [NonRepeatableRead, GSingle];
    circular_information_read_committed_forbids: ReadCommitted, CIRCULAR, [G2Item];
    circular_information_repeatable_read_forbids: RepeatableRead, CIRCULAR, [];
    lost_update_read_committed_allows: ReadCommitted, LOST, [LostUpdate, GSingle];
    lost_update_repeatable_read_forbids: RepeatableRead, LOST, [];
    lost_update_read_committed_with_the_old_value_as_a_condition_does_not_happen: ReadCommitted, LOST_IF_SAME, [];
    non_repeatable_read_read_committed_allows: ReadCommitted, REPEATED, [NonRepeatableRead, GSingle];
    non_repeatable_read_repeatable_read_forbids: RepeatableRead, REPEATED, [];
    non_repeatable_read_of_a_deleted_document_read_committed_allows:
        ReadCommitted, REPEATED_DELETE, [NonRepeatableRead, GSingle];
    non_repeatable_read_of_a_deleted_document_repeatable_read_forbids: RepeatableRead, REPEATED_DELETE, [];
    read_skew_read_committed_allows: ReadCommitted, READ_SKEW, [GSingle];
    read_skew_repeatable_read_forbids: RepeatableRead, READ_SKEW, [];
    read_skew_of_scans_read_committed_allows: ReadCommitted, READ_SKEW_SCANS, [GSingle, LostUpdate];
    read_skew_of_scans_repeatable_read_forbids: RepeatableRead, READ_SKEW_SCANS, [];
    write_skew_read_committed_allows: ReadCommitted, WRITE_SKEW, [G2Item];
    write_skew_repeatable_read_forbids: RepeatableRead, WRITE_SKEW, [];
    write_skew_of_scans_read_committed_allows:
        ReadCommitted, WRITE_SKEW_SCANS, [NonRepeatableRead, GSingle, G2Item];
    write_skew_of_scans_repeatable_read_forbids: RepeatableRead, WRITE_SKEW_SCANS, [];
    phantom_read_committed_allows: ReadCommitted, PHANTOM, [Phantom, G2];
    phantom_repeatable_read_allows: RepeatableRead, PHANTOM, [Phantom, G2];
    phantom_by_id_read_committed_allows: ReadCommitted, PHANTOM_BY_ID, [Phantom, G2];
    phantom_by_id_repeatable_read_allows: RepeatableRead, PHANTOM_BY_ID, [Phantom, G2];
    write_skew_through_a_predicate_read_committed_allows: ReadCommitted, PREDICATE_SKEW, [G2];
    write_skew_through_a_predicate_repeatable_read_allows: RepeatableRead, PREDICATE_SKEW, [G2];
    dirty_write_snapshot_forbids: Snapshot, DIRTY_WRITE, [];
    dirty_write_serializable_forbids: Serializable, DIRTY_WRITE, [];
    dirty_write_rolled_back_snapshot_forbids: Snapshot, DIRTY_WRITE_ROLLED_BACK, [];
    dirty_write_rolled_back_serializable_forbids: Serializable, DIRTY_WRITE_ROLLED_BACK, [];
    dirty_delete_snapshot_forbids: Snapshot, DELETE_AND_WRITE, [];
    dirty_delete_serializable_forbids: Serializable, DELETE_AND_WRITE, [];
    dirty_insert_snapshot_forbids: Snapshot, TWO_INSERTS, [];
    dirty_insert_serializable_forbids: Serializable, TWO_INSERTS, [];
    dirty_and_aborted_read_snapshot_forbids: Snapshot, ABORTED_READ, [];
    dirty_and_aborted_read_serializable_forbids: Serializable, ABORTED_READ, [];
    dirty_and_aborted_scan_snapshot_forbids: Snapshot, ABORTED_SCAN, [];
    dirty_and_aborted_scan_serializable_forbids: Serializable, ABORTED_SCAN, [];
    intermediate_read_snapshot_forbids: Snapshot, INTERMEDIATE_READ, [];
    intermediate_read_serializable_forbids: Serializable, INTERMEDIATE_READ, [];
    circular_information_snapshot_forbids_unless_commits_overlap: Snapshot, CIRCULAR, [];
    circular_information_serializable_forbids: Serializable, CIRCULAR, [];
    lost_update_snapshot_forbids: Snapshot, LOST, [];
    lost_update_serializable_forbids: Serializable, LOST, [];
    non_repeatable_read_snapshot_forbids: Snapshot, REPEATED, [];
    non_repeatable_read_serializable_forbids: Serializable, REPEATED, [];
    non_repeatable_read_of_a_deleted_document_snapshot_forbids: Snapshot, REPEATED_DELETE, [];
    non_repeatable_read_of_a_deleted_document_serializable_forbids: Serializable, REPEATED_DELETE, [];
    read_skew_snapshot_forbids: Snapshot, READ_SKEW, [];
    read_skew_serializable_forbids: Serializable, READ_SKEW, [];
    read_skew_of_scans_snapshot_forbids: Snapshot, READ_SKEW_SCANS, [];
    read_skew_of_scans_serializable_forbids: Serializable, READ_SKEW_SCANS, [];
    write_skew_snapshot_forbids_unless_commits_overlap: Snapshot, WRITE_SKEW, [];
    write_skew_serializable_forbids: Serializable, WRITE_SKEW, [];
    write_skew_of_scans_snapshot_forbids_unless_commits_overlap: Snapshot, WRITE_SKEW_SCANS, [];
    write_skew_of_scans_serializable_forbids: Serializable, WRITE_SKEW_SCANS, [];
    phantom_snapshot_forbids: Snapshot, PHANTOM, [];
    phantom_serializable_forbids: Serializable, PHANTOM, [];
    phantom_by_id_snapshot_forbids: Snapshot, PHANTOM_BY_ID, [];
    phantom_by_id_serializable_forbids: Serializable, PHANTOM_BY_ID, [];
    write_skew_through_a_predicate_snapshot_forbids_unless_commits_overlap: Snapshot, PREDICATE_SKEW, [];
    write_skew_through_a_predicate_serializable_forbids: Serializable, PREDICATE_SKEW, [];
}
