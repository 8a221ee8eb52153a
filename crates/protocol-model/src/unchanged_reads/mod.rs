//! Validation that does not read again what no write has changed, explored completely: a small
//! model of decision 0068.
//!
//! One server, two documents in collections of their own, and two clients. A transaction of *the
//! client* reads one document, then the other one, and locks a third thing. Its validation takes
//! for unchanged what the client's own memory, the stamps of others, and notices say so of, and
//! reads the rest again, in up to three rounds. Beside it the client decides other transactions and
//! makes plain writes, whose outcomes may stay unknown. *The other client* decides transactions,
//! and posts a notice before it makes plain writes, which names the collection. In some plans these
//! make an index by which the server removes the document, once, at any time from then on, and
//! leaves no trace that a client reads.
//!
//! Every decision about a document changes it back to its first or second value. The values of
//! plain writes come back only by a restart, which loses what was not journaled: no client notices
//! a plain write whose value comes back, and MongoTx without this decision does not either. Time is
//! a number of ticks, and any number of steps may happen within a tick. Everything that is sent is
//! carried out later and answered later still, or never. But for one: the look-ups of collections
//! that a validation waits for take no time. A look reads the records and the notices one after the
//! other. What is known of a collection is kept for any time, and not for ten seconds.
//!
//! - `plan`: plans of explorations; `breakage`: rules that can be broken on purpose.
//! - `state`: the states; `transaction`, `validating`: the transaction, by the rules R1 to R3;
//!   `look`: the client's looks; `catalog`: what it knows of collections (E4);
//!   `own`: its other changes, and how it counts them (W2, W3); `other`: the other client, with its
//!   notices (W1); `server`: writes, restarts, and time.
//! - `steps`: the steps; `properties`: the properties that must hold; `model`: all of it, as it is
//!   explored.
//!
//! What the explorations show beside the properties:
//!
//! - That the memory is read *after* the later look is answered matters only where the look is sent
//!   together with the reads, behind them. If it is sent when they are answered, its sending is as
//!   good a moment: the stamps of others are the same until later, and own changes after it are
//!   after the moment at which the transaction has read everything.
//! - Reads must show what was *decided* before they were sent, and not only what was acknowledged:
//!   a look shows decisions that the server has not acknowledged yet.
//! - That one document of several that are read again may be disturbed (decision 0019) rests on
//!   there being no plain writes. Here it may only if it is the only one that is read again.
//!
//! The model leaves out: the transaction's own decision (it is judged when it is valid, which is
//! earlier), and locks that a restart takes back; what the transaction has written itself; buckets,
//! and reads of more than one document; decisions about more than one record; records that are
//! closed or removed, but for notices (stamps that are gone differ from those that were there);
//! several looks at a time; notices of several collections; notices that are posted again before
//! they are over (a client whose notice is old sends nothing more); ends of notices that a restart
//! loses (the notices go on), or of which no client learns; commands that count for all
//! collections; indexes that are dropped, that a restart loses, or that the client itself makes (it
//! forgets what it knew); what else is known of a collection, by which a read names its documents
//! (unique keys, a collation); notices that the server has removed after half an hour although they
//! were not over (what is known of a collection is kept for ten seconds); locks that keep rivals
//! from each other (they write as they like); decisions that are refused; commands that a restart
//! loses (they are carried out later, over a new connection); clocks that differ; clients of
//! earlier versions.

pub mod breakage;
pub mod catalog;
pub mod look;
pub mod model;
pub mod other;
pub mod own;
pub mod plan;
pub mod properties;
pub mod server;
pub mod state;
pub mod steps;
pub mod transaction;
pub mod validating;

pub use breakage::Breakage;
pub use model::explore;
pub use plan::{BOTH, Plan, X, Y};
