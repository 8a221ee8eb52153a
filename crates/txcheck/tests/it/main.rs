//! The integration tests of `txcheck`: one program, a module for each topic.

mod modules;
