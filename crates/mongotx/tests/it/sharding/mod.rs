//! Collections with a shard key. No router is needed: what the server was sent is read from its
//! profiler.
//!
//! | file | what |
//! | --- | --- |
//! | [`place`] | a collection with the key `{region: 1, "owner.id": 1}`, and clients of it |
//! | [`wire`] | is the key in every command about a known document? |
//! | [`targeted`] | it is: in transactions that commit, roll back, die, are met, swept and aborted |
//! | [`keys`] | which keys are refused, and what would change one |

mod keys;
mod place;
mod targeted;
mod wire;
