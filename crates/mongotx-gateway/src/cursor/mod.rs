//! Open cursors: their table, how a batch of documents is made, and answers that wait in memory.

mod batch;
mod gathered;
mod table;

pub(crate) use self::{
    batch::{FIRST_BATCH, OpenCursor},
    gathered::GatheringLimits,
    table::{CursorLimits, CursorTable, InUse, Owner},
};
