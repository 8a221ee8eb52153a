//! Tests of salvage: stores of real servers are damaged at one place after the other, and what is
//! got out of them is compared with what was written.

mod command;
mod damage;
mod in_doubt;
mod member;
mod refused;
mod store;
