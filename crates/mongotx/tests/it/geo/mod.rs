//! Queries by place, compared with what the test computes itself: in the view of a transaction with
//! writes of its own and of a reader outside, while rivals are active, committed and not finished,
//! or dead.
//!
//! - `earth`: distances. `view`: the documents as each may see them, and the brute-force answer.
//!   `queries`: random ones.
//! - `world`: a collection with all these transactions at work on it. `compare`: finds. `stage`:
//!   the `$geoNear` stage.
//! - `writes`: updates and deletes of what is nearest. `cost`: commands and indexes used.

mod compare;
mod cost;
mod earth;
mod queries;
mod stage;
mod view;
mod world;
mod writes;
