//! What a validation asks of change stamps.
//!
//! | file | content |
//! | --- | --- |
//! | [`looks`] | looks at the stamps of all clients, shared and remembered |
//! | [`unchanged`] | what nothing has changed since it was read |
//! | [`quiet_reader`] | when a reader that has lost again and again asks for quiet |

pub(crate) mod looks;
pub(crate) mod quiet_reader;
pub(crate) mod unchanged;
