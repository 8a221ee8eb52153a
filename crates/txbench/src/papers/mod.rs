//! Tables of the papers, measured again on this machine: several runs, put together as one result.

pub mod bank;
