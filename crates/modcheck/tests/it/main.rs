//! The integration tests of `modcheck`: one program, a module for each topic.

mod modules;
