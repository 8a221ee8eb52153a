//! Text searches: the same documents with the same scores as the plain driver finds in a copy of
//! the visible versions under the same index; and what a text index refuses.
//!
//! - `compare`: random searches, inside and outside transactions. `writes`: updates and deletes of
//!   what is found.
//! - `scratch`: what a search costs, and what it leaves. `demands`: documents that the index cannot
//!   hold.

mod compare;
mod demands;
mod scene;
mod scratch;
mod writes;
