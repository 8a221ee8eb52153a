//! TPC-C on real servers: every layout loads and holds the consistency conditions, every
//! transaction works however it is written, clients at the same time break nothing where there are
//! transactions, and what is broken is found.

mod breaking;
mod runs;
mod setting;
mod transactions;
