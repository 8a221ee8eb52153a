//! The result of a benchmark, and the ways to show it: a table in the terminal, Markdown, JSON, one
//! HTML page.
//!
//! [`result`] is what was counted; [`summary`] has the figures computed from it; [`tables`] puts
//! them into words. Nothing here measures.

mod args;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod file;
pub mod html;
pub mod result;
pub mod spread;
pub mod summary;
pub mod table;
pub mod tables;
mod write;

pub use self::{
    args::{OutputArgs, TableArgs},
    file::{merge, read, write_json},
    write::{check, write, write_report},
};
