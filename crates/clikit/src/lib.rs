//! Parts that the commands `mongotx` and `mongotx-bench` share.
//!
//! | module | content |
//! | --- | --- |
//! | `connect` | the server that `--uri` names, within a bounded time |
//! | `failure` | why a command could not be carried out, and exit statuses |
//! | `generate` | shell completions and manual pages |
//! | `interrupt` | signals that end a command |
//! | `open_files` | the limit on open files |
//! | `program` | a program from its command to its exit status |
//! | `say` | text for people, from which control characters are gone |
//! | `survey` | locked and damaged documents of a server, looked at and not changed |
//! | `table` | tables of text |

pub mod connect;
pub mod failure;
pub mod generate;
pub mod interrupt;
pub mod open_files;
pub mod program;
pub mod say;
pub mod survey;
pub mod table;
