//! `mongotx mongod-path` names the mongod that is used, or says why none can be.

use crate::common;

use common::{mongotx, status_and_output};

fn with_variable(path: &str) -> (i32, String) {
    status_and_output(&mongotx(["mongod-path"]).env("MONGOTX_MONGOD", path).output().unwrap())
}

#[test]
fn what_the_variable_names_is_used() {
    let own = env!("CARGO_BIN_EXE_mongotx");
    assert_eq!(with_variable(own), (0, format!("{own}\n")));
}

#[test]
fn a_variable_that_names_nothing_is_refused_by_its_name() {
    let (status, said) = with_variable("/nowhere/mongod");
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("MONGOTX_MONGOD") && said.contains("/nowhere/mongod"), "{said}");
}
