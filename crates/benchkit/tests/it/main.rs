//! The integration tests of `benchkit`: one program, a module for each topic.

mod modules;
