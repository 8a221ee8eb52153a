//! TPC-C: a wholesale supplier's orders, payments and deliveries, after revision 5.11 of the TPC's specification, on
//! documents. "Clause" in this folder means a clause of that specification.

pub mod deck;
pub mod draw;
pub mod how;
pub mod ids;
pub mod input;
pub mod kind;
pub mod load;
pub mod nurand;
pub mod rows;
pub mod scale;
pub mod schema;
pub mod tx;
