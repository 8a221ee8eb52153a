//! MongoDB's wire protocol: bytes to requests, replies to bytes. No I/O, no clock, no state.
//!
//! | file | what |
//! | --- | --- |
//! | `check` | documents that came from outside: lengths, types, text, depth |

pub(crate) mod check;
