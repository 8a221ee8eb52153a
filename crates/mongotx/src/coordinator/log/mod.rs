//! The log of decisions: its interface, and the records that clients keep. The implementations are
//! in [`super::decisions`].
//!
//! | file | content |
//! | --- | --- |
//! | [`txlog`] | the one way in for decisions about status |
//! | [`records`] | client records as stored, and the commands that rivals use on them |
//! | [`hold`] | the hold of a checkpoint, which keeps clients from registering |
//! | [`strangers`] | locks of clients that have no record here |

pub(crate) mod hold;
pub(crate) mod records;
pub(crate) mod strangers;
pub(crate) mod txlog;
