//! One engine of measuring and reporting, for the benchmarks of MongoTx and of DTranx.
//!
//! What is measured is the caller's: a [`run::Client`] draws transactions and tries them. Here is
//! the rest of a run, from the first client to the page of charts:
//!
//! 1. [`run`]: who comes when ([`run::turns()`]: rivals take turns, round after round), and the
//!    clients of one run, in a closed or an open loop, with what is measured of them.
//! 2. [`measure`]: latencies, counts of outcomes, the machine.
//! 3. [`report`]: the result as JSON, medians and ranges over its rounds, tables as text and as
//!    Markdown, a page with charts.
//!
//! Start reading at [`run::Client`] and [`report::result`].
//!
//! Deliberately absent: any knowledge of a database, of its servers and of its transactions.

pub mod error;
pub mod measure;
pub mod report;
pub mod run;

pub use error::Error;
