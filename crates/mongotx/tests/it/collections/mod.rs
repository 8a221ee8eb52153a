//! Collections made and dropped: explicitly, and by the first insert.
//!
//! | file | what |
//! | --- | --- |
//! | [`created`] | made with options, and listed as they were made |
//! | [`implicit`] | made by writes of transactions that commit, that are rolled back, and of two at once |
//! | [`dropped`] | dropped when nothing in them is locked |
//! | [`renamed`] | renamed when nothing in them is locked, and no lock comes in between |

mod created;
mod dropped;
mod implicit;
mod renamed;
