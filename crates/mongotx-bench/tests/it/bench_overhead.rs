//! `mongotx-bench overhead`: the operations that its options name are measured on all sides, and
//! are in the table and in the file.

use crate::common;

use common::run_bench;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_and_the_memory_are_reported_in_the_table_and_in_the_file() {
    let (alone, set) =
        (local_mongod::shared_standalone().await.unwrap(), local_mongod::shared_replica_set().await.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overhead.json");
    let (uri, replica_uri, json) = (alone.uri(), set.uri(), file.to_str().unwrap().to_owned());
    let (status, said) = tokio::task::spawn_blocking(move || {
        let what = ["overhead", "--operations", "find,insert,update,query,transaction", "--connections", "1,3"];
        let how = ["--seconds", "0.3", "--idle-connections", "20", "--markdown"];
        let where_ = ["--uri", &uri, "--replica-uri", &replica_uri, "--json", &json];
        run_bench(what.into_iter().chain(how).chain(where_))
    })
    .await
    .unwrap();
    assert_eq!(status, 0, "{said}");
    let result: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let rows = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = result["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 10);
    for line in lines {
        let title = line["operation"].as_str().unwrap();
        assert!(rows.contains(&format!("| {title} | {} |", line["connections"])), "{title}: {rows}");
        for side in ["direct", "proxy", "gateway"] {
            assert!(line[side]["perSecond"].as_f64().unwrap() > 0.0, "{line}");
            assert!(!line[side]["latenciesNs"].as_array().unwrap().is_empty(), "{line}");
        }
    }
    let memory: Vec<u64> =
        result["memory"].as_array().unwrap().iter().map(|one| one["residentBytes"].as_u64().unwrap()).collect();
    assert_eq!(memory.len(), 4, "as started, idle, and after either server's lines");
    assert!(memory.iter().all(|bytes| *bytes > 1 << 20), "{memory:?}");
    let databases = alone.client().await.unwrap().list_database_names().await.unwrap();
    assert!(!databases.iter().any(|name| name.starts_with("mongotx_bench_")), "{databases:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let (status, said) = run_bench(["overhead", "--json", "/there/is/no/such/folder/x.json"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("--json"), "{said}");
}
