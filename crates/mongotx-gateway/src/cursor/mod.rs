//! Open cursors: their table, and how a batch of documents is made.

mod batch;
mod table;

pub(crate) use self::{
    batch::{FIRST_BATCH, Open},
    table::{CursorTable, Owner},
};
