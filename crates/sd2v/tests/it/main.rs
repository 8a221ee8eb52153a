//! The integration tests of `sd2v`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod golden_expression;
mod golden_filter;
mod golden_fuse;
mod golden_geo;
mod golden_pipeline;
mod golden_projection;
mod golden_update;
mod golden_upsert;
mod modules;
mod properties;
