//! The two implementations of the log ([`super::log::txlog`]).
//!
//! | file | content |
//! | --- | --- |
//! | [`client_record`] | one record for all transactions of a client: what is used |
//! | [`published`] | one record for each transaction, as the paper has it: the baseline |

pub(crate) mod client_record;
pub(crate) mod published;
