//! The result of a benchmark, and the ways to show it: a table in the terminal, Markdown, JSON, one HTML page.
//!
//! [`result`] is what was counted; [`summary`] what it comes to. Nothing here measures.

#[cfg(test)]
mod fake;
pub mod result;
pub mod spread;
pub mod summary;
pub mod table;
pub mod tables;
