//! Runs the programs of `examples/` against a real server. Each looks itself whether it has come
//! out right, and ends with an error if not.
#![allow(dead_code, reason = "their main functions are for `cargo run --example`")]
#![allow(clippy::duplicate_mod, reason = "each is a program of its own, with the same helper")]

#[path = "../../examples/bulk_import.rs"]
mod bulk_import;
#[path = "../../examples/indeterminate_outcome/main.rs"]
mod indeterminate_outcome;
#[path = "../../examples/retry_loop.rs"]
mod retry_loop;
#[path = "../../examples/serializable_invariant.rs"]
mod serializable_invariant;
#[path = "../../examples/transfer.rs"]
mod transfer;

use std::{error::Error, time::Duration};

/// The longest that an example may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs an example against the server for tests whose clients request quiet.
async fn check(example: impl AsyncFnOnce(&str) -> Result<(), Box<dyn Error>>) {
    let uri = crate::quiet::server_apart().await.uri();
    tokio::time::timeout(LIMIT, example(&uri)).await.expect("an example that ends").unwrap();
}

#[tokio::test]
async fn transfer_moves_money_or_nothing() {
    check(transfer::run_example).await;
}

#[tokio::test]
async fn retry_loop_loses_no_addition() {
    check(retry_loop::run_example).await;
}

#[tokio::test]
async fn indeterminate_outcome_is_learned() {
    check(indeterminate_outcome::run_example).await;
}

#[tokio::test]
async fn serializable_invariant_holds() {
    check(serializable_invariant::run_example).await;
}

#[tokio::test]
async fn bulk_import_imports_everything_once() {
    check(bulk_import::run_example).await;
}

/// Every example has a test here.
#[test]
fn no_example_is_left_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let tested = include_str!("examples.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(module == "common" || tested.contains(&format!("check({module}::run_example)")), "{name} has no test");
    }
}
