//! The integration tests of `child-processes`: one program, a module for each topic.

mod modules;
