//! The log of decisions: its interface, and the records that clients keep. The implementations are
//! in [`super::decisions`].
//!
//! | file | content |
//! | --- | --- |
//! | [`txlog`] | the one way in for decisions about status |
//! | [`records`] | client records as stored, and the commands that rivals use on them |
//! | [`hold`] | the hold of a checkpoint, which keeps clients from registering |
//! | [`record_databases`] | the databases in which clients keep their records |
//! | [`missing_record`] | whether locks of a client without a record are orphans |

pub(crate) mod hold;
pub(crate) mod missing_record;
pub(crate) mod record_databases;
pub(crate) mod records;
pub(crate) mod txlog;
