//! Several writes of one call: those that go together in one command, on what is in
//! [`super::writes`].
//!
//! | file | content |
//! | --- | --- |
//! | [`bulk_write`] | which writes of a bulk go together and which one by one |
//! | [`combined_writes`] | those that one command carries out |
//! | [`upserts`] | upserts among them |
//! | [`direct_batch`] | writes of one document each, outside transactions |

pub(crate) mod bulk_write;
mod combined_writes;
pub(crate) mod direct_batch;
mod upserts;
