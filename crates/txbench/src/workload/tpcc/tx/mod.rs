//! The five transactions (clauses 2.4 to 2.8), from after `begin` to before `commit`. Both are the
//! caller's: so tests can stop before the end.
//!
//! A row that is read and then changed is either changed first ([`How::find_and_modify`]), and so
//! locked before anything is made of it, or its update has the value that was read as a condition.
//! Either way no update is lost at read committed.
//!
//! [`How::find_and_modify`]: super::how::How::find_and_modify

pub mod customer;
pub mod delivery;
pub mod new_order;
pub mod order_status;
pub mod orders;
pub mod payment;
pub mod stock;
pub mod stock_level;
pub mod work;
