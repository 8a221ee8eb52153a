//! The commands: what is salvaged is restored into another cluster, what is marked only if that is
//! asked for.

use std::fs;

use dtranx::client::{Client, ClientOptions};
use dtranx::server::Server;

use super::store::Store;
use crate::limit::Limit;
use crate::processes::commands::{dtranx, err, out};

/// Writes the configuration of a store's server.
fn configured(store: &Store) -> String {
    let file = store.folder.path().join("server.toml");
    let (folder, address) = (store.config.folder.display(), store.cluster.servers[0].address);
    let servers = format!("servers = [{{ id = 1, address = \"{address}\" }}]");
    let text =
        format!("cluster = \"test\"\nserver = 1\nfolder = \"{folder}\"\n{servers}\n[limits]\nsegment_mib = 16\n");
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn whole_store_is_salvaged_and_restored() {
    let _limit = Limit::of(300, "end of a command");
    let (store, other) = (Store::young(), Store::young());
    let config = configured(&store);
    let file = store.folder.path().join("saved.backup").display().to_string();
    let salvaged = dtranx(None, &["salvage", "--config", &config, &file], "");
    assert!(salvaged.status.success(), "{}{}", out(&salvaged), err(&salvaged));
    assert!(out(&salvaged).contains("moment: the last one"), "{}", out(&salvaged));
    let again = dtranx(None, &["salvage", "--config", &config, &file], "");
    assert!(again.status.code() == Some(2) && err(&again).contains("is there already"), "{}", err(&again));
    let inside = store.path("saved.backup").display().to_string();
    let inside = dtranx(None, &["salvage", "--config", &config, &inside], "");
    assert!(inside.status.code() == Some(2) && err(&inside).contains("which is not written"), "{}", err(&inside));

    fs::remove_dir_all(&other.config.folder).unwrap();
    let _server = Server::start(&other.config).unwrap();
    let address = other.cluster.servers[0].address;
    let restored = dtranx(None, &["restore", &file, "--salvaged", "--server", &address.to_string()], "");
    assert!(restored.status.success(), "{}", err(&restored));
    let client = Client::connect(&[address], ClientOptions::default()).unwrap();
    for (key, value) in store.last() {
        assert_eq!(client.get(key.clone()).unwrap().unwrap(), value);
    }
}

#[test]
fn what_is_marked_is_restored_only_if_that_is_asked_for() {
    let _limit = Limit::of(600, "end of a command");
    let (store, other) = (Store::old(), Store::young());
    let config = configured(&store);
    // Without journals, no item is sure that the log does not have.
    for entry in fs::read_dir(store.path("items")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "jnl") {
            fs::remove_file(path).unwrap();
        }
    }
    let file = store.folder.path().join("saved.backup").display().to_string();
    let salvaged = dtranx(None, &["salvage", "--config", &config, &file], "");
    assert_eq!(salvaged.status.code(), Some(1), "{}{}", out(&salvaged), err(&salvaged));
    assert!(out(&salvaged).contains("damage: ") && out(&salvaged).contains("it has no journal"), "{}", out(&salvaged));

    fs::remove_dir_all(&other.config.folder).unwrap();
    let _server = Server::start(&other.config).unwrap();
    let address = other.cluster.servers[0].address.to_string();
    let restore = |options: &[&str]| dtranx(None, &[&["restore", &file, "--server", &address], options].concat(), "");
    let refused = restore(&[]);
    assert!(
        refused.status.code() == Some(1) && err(&refused).contains("`--salvaged` restores it"),
        "{}",
        err(&refused)
    );
    let client = Client::connect(&[other.cluster.servers[0].address], ClientOptions::default()).unwrap();
    assert_eq!(client.get("a1").unwrap(), None, "nothing is restored");
    let restored = restore(&["--salvaged"]);
    assert!(restored.status.success() && out(&restored).contains("were left out"), "{}", err(&restored));
    assert!(client.get("a1").unwrap().is_some());
    assert_eq!(client.get("old03").unwrap(), None);
    let all = restore(&["--salvaged", "--uncertain", "--replace"]);
    assert!(all.status.success(), "{}", err(&all));
    assert_eq!(client.get("old03").unwrap().unwrap(), vec![3; 5_000]);
}
