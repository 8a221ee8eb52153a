//! The treatment of pending documents before a query reads the versions that all see.
//!
//! | file | content |
//! | --- | --- |
//! | [`nondeterminism`] | expressions that have another value each time they are evaluated |
//! | [`one_process`] | queries that are sent again if the server was started anew among their commands |
//! | [`pending`] | repairs what the query would have to see |
//! | [`read_lease`] | queries of a client that is alone, which need no look for what is pending |

pub(crate) mod nondeterminism;
pub(crate) mod one_process;
pub(crate) mod pending;
pub(crate) mod read_lease;
