//! The result of a benchmark, and the ways to show it: a table in the terminal, Markdown, JSON, one HTML page.

pub mod result;
