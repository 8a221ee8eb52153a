//! Child processes that end with their parent, however that ends; commands with a time limit;
//! signals; free ports.
//!
//! For tests, benchmarks and the commands that start local servers. Start reading at [`Process`].

mod command;
mod error;
mod port;
mod process;
pub mod signal;

pub use command::{Finished, run_limited};
pub use error::Error;
pub use port::pick_free_port;
pub use process::{Process, Start};
