//! Ways to write the transactions that paper 002 compares. What a transaction does is the same with
//! all of them.

use super::schema::Schema;

/// Choices about the way in which transactions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Layout of the nine tables in collections.
    pub schema: Schema,
    /// Reads return the fields that are used and no others.
    pub needed_fields: bool,
    /// Writes come before reads where they can, so that conflicts show early.
    pub writes_first: bool,
    /// A row that is read and changed is read and changed by one operation, unless several are in a
    /// batch.
    pub find_and_modify: bool,
    /// Rows of the same collection are read, inserted and updated together.
    pub batch: bool,
}
