//! Folders that are not salvaged: of a running server, without a store, of another server.

use std::fs;

use dtranx::server::{Server, ServerConfig, salvage};

use super::store::Store;
use crate::limit::Limit;

fn refusal(config: &ServerConfig) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let error = salvage(config, &scratch.path().join("scratch"), Vec::new()).expect_err("it is salvaged");
    error.to_string()
}

#[test]
fn running_server_is_refused() {
    let _limit = Limit::of(300, "start of a server");
    let store = Store::young();
    let server = Server::start(&store.config).unwrap();
    let said = refusal(&store.config);
    assert!(said.contains("in use by another server"), "{said}");
    // Its items are in use, too, wherever its log is said to be.
    let mut elsewhere = store.config.clone();
    elsewhere.log_folder = store.folder.path().join("nowhere");
    let said = refusal(&elsewhere);
    assert!(said.contains("in use by another server"), "{said}");
    drop(server);
    store.check("the server has ended");
}

#[test]
fn folders_without_a_store_are_refused_and_not_made() {
    let _limit = Limit::of(300, "start of a server");
    let store = Store::young();
    let mut config = store.config.clone();
    for name in ["missing", "empty", "other"] {
        config.folder = store.folder.path().join(name);
        config.log_folder = config.folder.join("log");
        if name != "missing" {
            fs::create_dir(&config.folder).unwrap();
        }
        if name == "other" {
            fs::write(config.folder.join("notes.txt"), "something else").unwrap();
        }
        let said = refusal(&config);
        assert!(said.contains("there is no store in"), "{name}: {said}");
        assert_eq!(config.folder.exists(), name != "missing");
        assert!(!config.log_folder.exists());
    }
}

#[test]
fn data_of_another_server_or_cluster_are_refused() {
    let _limit = Limit::of(300, "start of a server");
    let store = Store::young();
    let mut config = store.config.clone();
    config.cluster.name = "another".to_owned();
    let said = refusal(&config);
    assert!(said.contains("cluster: the data are of \"test\""), "{said}");
}

#[test]
fn items_and_log_of_another_store_are_named_and_not_used() {
    let _limit = Limit::of(300, "start of a server");
    let (store, mut other) = (Store::young(), Store::young());
    other.serve(|other, client| other.transact(client, &[("foreign".to_owned(), Some(b"x".to_vec()))]));
    let replace = |part: &str| {
        fs::rename(store.path(part), store.folder.path().join("aside")).unwrap();
        fs::rename(other.path(part), store.path(part)).unwrap();
    };
    replace("items");
    let got = store.salvage();
    let said: String = got.found.damages.list().iter().map(ToString::to_string).collect();
    assert!(said.contains("the items belong to the store"), "{said}");
    assert_eq!(&got.sure, store.last(), "the log has everything");
    assert!(got.uncertain.is_empty(), "items of another store are used: {:?}", got.uncertain.keys());
    fs::remove_dir_all(store.path("items")).unwrap();
    fs::rename(store.folder.path().join("aside"), store.path("items")).unwrap();
    replace("log");
    let got = store.salvage();
    let said: String = got.found.damages.list().iter().map(ToString::to_string).collect();
    assert!(said.contains("it belongs to server 1, store"), "{said}");
    assert!(got.sure.is_empty(), "no log says what is sure");
}
