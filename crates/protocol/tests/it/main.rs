//! The integration tests of `protocol`: one program, a module for each topic.

mod modules;
