//! The part of a validation that compares change stamps.
//!
//! | file | content |
//! | --- | --- |
//! | [`looks`] | looks at the stamps of all clients, shared and remembered |
//! | [`unchanged`] | reads that nothing has changed since |
//! | [`quiet_reader`] | when a reader that has lost again and again requests quiet |

pub(crate) mod looks;
pub(crate) mod quiet_reader;
pub(crate) mod unchanged;
