//! Reads inside transactions, explored completely: read locks, and the answers that a transaction
//! gets after rivals have ended it. A small model beside the one of commits, with the decisions of
//! `protocol::lock`.
//!
//! A statement at repeatable read: 1. it selects documents, as every reader sees them; 2. it
//! read-locks them by one update of many documents, which skips those that a rival holds for
//! writing; 3. if it skipped some, it looks at each of those that it has not locked: a rival's are
//! met, free ones are locked after all, and only one that is not there was removed; 4. it reads
//! again, under its locks; 5. it looks whether the transaction lives; 6. it answers.
//!
//! A statement at read committed takes steps 4 to 6. A statement that writes locks and changes its
//! document at once, then takes steps 5 and 6.
//!
//! Step 5 reads the transaction's own record over the connection for records: neither fenced nor
//! killed, in the server process in which the transaction took its first lock. Locks are removed by
//! others only after that record says so, or with the process. So what was read before step 5 was
//! read under all the locks that the transaction ever took.
//!
//! That makes it unnecessary to look for the old lock of a document that is read again; before a
//! document is written that was read, the lock is still demanded, in the condition that takes the
//! write lock.
//!
//! - `plan`: plans of explorations; `breakage`: rules that can be broken on purpose.
//! - `state`: the states; `statement`, `writing`: the steps of a transaction; `steps`: the steps
//!   that are possible.
//! - `properties`: the properties that must hold; `model`: all of it, as it is explored.
//!
//! Left out, because the other models explore it: how statuses are stored and decided (here they
//! are an atomic map, and a decision an atomic step that sees the server's process), late messages,
//! unique values. Left out altogether: predicates (a statement selects by `_id`; repeatable read
//! does not forbid phantoms), waiting (a transaction that meets an active rival rolls itself back),
//! reads of what is removed (they keep nothing locked).

pub mod breakage;
pub mod model;
pub mod plan;
pub mod properties;
pub mod state;
pub mod statement;
pub mod steps;
pub mod writing;

pub use breakage::Breakage;
pub use model::explore;
pub use plan::{Faults, Op, Plan, TxPlan};
