//! Tests of configuration files: valid ones are read, and each invalid one is refused by the name
//! of the wrong field.

use dtranx::core::{Key, Partition, ServerId};
use dtranx::server::{LogMedium, ServerConfig};
use dtranx::stage::Binding;

const GOOD: &str = r#"
cluster = "bank"
server = 2
folder = "/somewhere"
medium = "persistent-memory"
servers = [
  { id = 1, address = "127.0.0.1:7101" },
  { id = 2, address = "127.0.0.1:7102" },
]
"#;

#[test]
fn whole_configuration_is_read() {
    let text = format!(
        "{GOOD}\n[partition]\nby = \"ranges\"\nranges = [{{ first_key = \"\", server = 2 }}, {{ first_key = \"m\", server = 1 }}]\n\
         [limits]\nsegment_mib = 32\nlog_mib = 128\ngc_interval_ms = 10\nitem_cache_mib = 0\nacknowledgement_delay_ms = 0\n\
         lock_wait_ms = 500\nlock_patience_ms = 5\nlock_keep_ms = 0\n[threads]\ncores = [1, 0]\n"
    );
    let config = ServerConfig::from_toml(&text, None).unwrap();
    assert_eq!((config.server, config.medium), (ServerId(2), LogMedium::PersistentMemory));
    assert_eq!((config.segment_bytes, config.log_limit_bytes, config.gc_interval_ms), (32 << 20, 128 << 20, 10));
    assert_eq!((config.item_cache_bytes, config.acknowledgement_delay_ms), (0, 0), "both can be switched off");
    assert_eq!((config.lock_wait_ms, config.lock_patience_ms, config.lock_keep_ms), (500, 5, 0));
    assert_eq!(config.binding, Binding::Cores(vec![1, 0]));
    assert!(config.log_folder.ends_with("somewhere/log"));
    let key = |name: &'static str| Key::new(name).unwrap();
    let ranges = vec![(key(""), ServerId(2)), (key("m"), ServerId(1))];
    assert_eq!(config.cluster.partition, Partition::Ranges(ranges));
    let hashed = ServerConfig::from_toml(GOOD, Some(1)).unwrap();
    assert_eq!(hashed.server, ServerId(1));
    assert_eq!(hashed.cluster.partition, Partition::Hash(vec![ServerId(1), ServerId(2)]));
}

#[test]
fn bad_configurations_name_the_field() {
    let replaced = |from: &str, to: &str| {
        assert!(GOOD.contains(from));
        GOOD.replace(from, to)
    };
    let added = |text: &str| format!("{GOOD}\n{text}\n");
    let cases = [
        (replaced("server = 2", "server = 3"), "server: server 3 is not among the servers"),
        (replaced("server = 2\n", "\n"), "server: "),
        (replaced("folder = \"/somewhere\"\n", "\n"), "folder: "),
        (replaced("\"bank\"", "\"\""), "cluster: "),
        (replaced("id = 1", "id = 2"), "servers[1].id: server 2 is there twice"),
        (replaced(":7101", ":7102"), "servers[1].address: "),
        (replaced("127.0.0.1:7101", "10.0.0.1:7101"), "servers[0].address: 10.0.0.1:7101 is not of the loopback"),
        (replaced("127.0.0.1:7101", "localhost"), "address"),
        (replaced("medium", "media"), "media"),
        (replaced("\"persistent-memory\"", "\"paper\""), "paper"),
        (replaced("\"persistent-memory\"", "\"memory\""), "medium: "),
        (added("[limits]\nsegment_mib = 1"), "limits.segment_mib: 1"),
        (added("[limits]\nlog_mib = 255"), "limits.log_mib: 255: at least 4 segments, 256"),
        (added("[limits]\ngc_interval_ms = 0"), "limits.gc_interval_ms: 0"),
        (added("[limits]\nitem_cache_mib = 1048577"), "limits.item_cache_mib: 1048577: 0 (none) to 1048576"),
        (added("[limits]\nlock_patience_ms = 0"), "limits.lock_patience_ms: 0: 1 to 1000"),
        (added("[limits]\nlock_patience_ms = 1001"), "limits.lock_patience_ms: 1001: 1 to 1000"),
        (added("[limits]\nlock_keep_ms = 1001"), "limits.lock_keep_ms: 1001: 0 (not at all) to 1000"),
        (added("[limits]\nacknowledgement_delay_ms = 101"), "limits.acknowledgement_delay_ms: 101: 0 to 100"),
        (added("[limits]\nclient_window = 0"), "limits.client_window: 0"),
        (added("[limits]\nclient_connections = 65537"), "limits.client_connections: 65537: 1 to 65536"),
        (added("[limits]\nclient_mib = 63"), "limits.client_mib: 63: 64 to 1048576"),
        (added("[limits]\nhandshake_ms = 99"), "limits.handshake_ms: 99: 100 to 3600000"),
        (added("[limits]\nframe_ms = 99"), "limits.frame_ms: 99: 100 to 3600000"),
        (added("[limits]\nclient_idle_ms = 999"), "limits.client_idle_ms: 999: 1000 to 604800000, or 0 (for ever)"),
        (added("[limits]\nsnapshot_window_ms = 99"), "limits.snapshot_window_ms: 99: 100 to 86400000"),
        (added("[limits]\nsnapshot_mib = 1048577"), "limits.snapshot_mib: 1048577: 0 to 1048576"),
        (added("[limits]\nsegments = 1"), "segments"),
        (added("[partition]\nby = \"colour\""), "colour"),
        (added("[partition]\nby = \"ranges\"\nranges = []"), "partition: "),
        (added("[partition]\nby = \"ranges\"\nranges = [{ first_key = \"\", server = 9 }]"), "partition: server 9"),
        (added("[threads]\npinned = false\ncores = [0]"), "threads.cores: "),
        ("cluster = ".to_owned(), "line 1"),
    ];
    for (text, expected) in cases {
        let error = ServerConfig::from_toml(&text, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }
}

const GROUP: &str = r#"
cluster = "bank"
server = 1
member = 2
folder = "/somewhere"
servers = [
  { id = 1, members = ["127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"] },
]
"#;

#[test]
fn members_of_a_group_are_read() {
    let config = ServerConfig::from_toml(GROUP, None).unwrap();
    assert_eq!((config.server, config.member), (ServerId(1), Some(2)));
    let ports: Vec<u16> = config.cluster.addresses(ServerId(1)).iter().map(std::net::SocketAddr::port).collect();
    assert_eq!(ports, [7101, 7102, 7103]);
    assert_eq!(config.cluster.address(ServerId(1)).unwrap().port(), 7101);
    assert_ne!(config.cluster.map_id(), ServerConfig::from_toml(&alone(), None).unwrap().cluster.map_id());
}

/// The same server without members.
fn alone() -> String {
    let members = "members = [\"127.0.0.1:7101\", \"127.0.0.1:7102\", \"127.0.0.1:7103\"]";
    GROUP.replace("member = 2\n", "").replace(members, "address = \"127.0.0.1:7101\"")
}

#[test]
fn bad_groups_name_the_field() {
    let replaced = |from: &str, to: &str| {
        assert!(GROUP.contains(from));
        GROUP.replace(from, to)
    };
    let two = replaced(", \"127.0.0.1:7103\"", "");
    let cases = [
        (two, "servers[0].members: a group has 3, 5 or 7 members, this one 2"),
        (replaced(":7103", ":7102"), "servers[0].members[2]: 127.0.0.1:7102 is there twice"),
        (replaced("127.0.0.1:7102", "10.0.0.1:7102"), "servers[0].members[1]: 10.0.0.1:7102 is not of the loopback"),
        (replaced("members", "address = \"127.0.0.1:1\", members"), "servers[0]: it has an address, or members"),
        (replaced("member = 2\n", ""), "member: it says which of the 3 members this is"),
        (replaced("member = 2", "member = 4"), "member: 4: server 1 has the members 1 to 3"),
        (replaced("member = 2", "member = 0"), "member: 0: server 1 has the members 1 to 3"),
        (
            replaced("member = 2", "member = 2\nmedium = \"memory\"\nstorage = \"memory\""),
            "medium: a member of a group",
        ),
        (alone().replace("server = 1", "server = 1\nmember = 1"), "member: server 1 is no group"),
    ];
    for (text, expected) in cases {
        let error = ServerConfig::from_toml(&text, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }
}

#[test]
fn missing_file_is_named() {
    let error = ServerConfig::read(std::path::Path::new("/nowhere/dtranx.toml"), None).unwrap_err();
    assert!(error.to_string().contains("/nowhere/dtranx.toml"), "{error}");
}
