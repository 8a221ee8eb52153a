//! The integration tests of `clikit`: one program, a module for each topic.

mod modules;
