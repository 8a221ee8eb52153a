//! Leftovers that no transaction waits for, and the pause in which there are none.
//!
//! | file | content |
//! | --- | --- |
//! | [`sweep`] | leftovers of dead clients, on start-up and on demand |
//! | [`scratch`] | collections that text searches have left |
//! | [`checkpoint`] | a pause of all decisions, with everything finished |

pub(crate) mod checkpoint;
pub(crate) mod scratch;
pub(crate) mod sweep;
