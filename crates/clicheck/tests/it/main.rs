//! The integration tests of `clicheck`: one program, a module for each topic.

mod modules;
