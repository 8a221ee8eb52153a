//! The integration tests of `leash`: one program, a module for each topic.

mod modules;
