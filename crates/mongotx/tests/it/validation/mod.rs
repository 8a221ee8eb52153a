//! Reads are validated at the commit: every kind of read, by rivals whose changes matter to it and
//! by others.
//!
//! | file | content |
//! | --- | --- |
//! | [`reads`] | the kinds of reads, each with what makes it another and what does not |
//! | [`kinds`] | each of them in a transaction that has written nothing, before, afterwards, or both |
//! | [`ahead`] | reads that are sent again with a transaction's last insert |
//! | [`as_read`] | what was read and is locked afterwards, as it was read |
//! | [`audits`] | readers of everything beside writers that are never all decided |
//! | [`fields`] | fields that a rival does not change, of a document that it holds |
//! | [`firsts`] | the first document of an order, beside what is held before it and behind it |
//! | [`losers`] | transactions that lose again and again are given quiet |
//! | [`overlapping`] | commits that run at the same time, and documents that change twice |
//! | [`unchanged_reads`] | what nothing has changed, which is not read again |

mod ahead;
mod as_read;
mod audits;
mod behind;
mod fields;
mod first_few;
mod firsts;
mod kinds;
mod losers;
mod overlapping;
mod reads;
mod unchanged_reads;
