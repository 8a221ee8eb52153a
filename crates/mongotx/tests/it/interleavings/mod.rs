//! The anomalies that each isolation level forbids and allows, shown by every interleaving of short
//! histories.
//!
//! | file | content |
//! | --- | --- |
//! | [`executor`] | steps of a planned history as calls of MongoTx |
//! | [`levels`] | anomalies that each level forbids; runs all interleavings and compares |
//! | [`two`], [`three`] | the histories, of two and of three transactions |
//! | [`mixed`] | transactions of different levels against each other |
//! | [`native`] | the same histories on MongoDB's own transactions, for the comparison in `docs/isolation.md` |
//!
//! The notation and the judge are in the crate `txcheck`.

/// A test of each history at a level, with the anomalies that its interleavings show.
macro_rules! cells {
    ($($name:ident: $level:expr, $history:expr, $shown:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            check($level, &$history, &$shown).await;
        })*
    };
}

mod executor;
mod levels;
mod mixed;
mod native;
mod three;
mod two;
