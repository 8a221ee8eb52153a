//! Parts that the handlers of several commands share.
//!
//! | file | content |
//! | --- | --- |
//! | `call` | a command that is being carried out: its arguments, and the state that it may use |
//! | `generic`, `read_concern`, `write_concern` | the fields that every command may carry |
//! | `concern_wait` | waiting for more members, in turns |
//! | `body` | the answer of a handler: the fields of a reply, or the server's reply |
//! | `first_batch` | a query's first documents, and its cursor |
//! | `lists` | answers that describe collections and indexes |
//! | `named_collections` | the collections that a pipeline reads or writes besides its input |
//! | `plan` | how a command is explained |
//! | `writes`, `statements`, `modification` | the statements of writes, and their results |
//! | `write_errors` | what a reply says about refused statements |
//! | `write_command` | a command that lists statements: `update` and `delete` |
//! | `scripts` | functions in JavaScript, and the values that they are given |
//! | `recovery` | the recovery token of a transaction |
//!
//! No file here uses a handler.

pub(super) mod body;
pub(super) mod call;
mod concern_wait;
pub(super) mod first_batch;
pub(super) mod generic;
pub(super) mod lists;
pub(super) mod modification;
mod named_collections;
pub(super) mod plan;
pub(super) mod read_concern;
pub(super) mod recovery;
pub(super) mod scripts;
pub(super) mod statements;
pub(super) mod write_command;
pub(super) mod write_concern;
mod write_errors;
pub(super) mod writes;
