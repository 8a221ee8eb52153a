//! Impossible settings are refused before anything is started; the error names the option or the
//! rival.

use std::process::Command;

fn refusal(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_dtranx-bench")).args(args).env("PATH", "").output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn redis_has_one_server() {
    let message = refusal(&["compare", "--stores", "redis", "--servers", "3"]);
    assert!(message.contains("redis has no transactions over several servers"), "{message}");
}

#[test]
fn group_has_an_odd_number_of_members() {
    for servers in ["1", "2", "6"] {
        let message = refusal(&["compare", "--stores", "dtranx", "--group", "--servers", servers]);
        assert!(message.contains(&format!("--group has 3, 5 or 7 members: --servers is {servers}")), "{message}");
    }
}

#[test]
fn transfers_and_modifications_have_no_part_that_only_reads() {
    for shape in ["transfer", "modify"] {
        let message = refusal(&["compare", "--shape", shape, "--reads", "50"]);
        assert!(message.contains(&format!("--reads has no meaning with --shape {shape}")), "{message}");
    }
}

#[test]
fn numbers_outside_their_limits_are_refused_with_the_limits() {
    let cases = [
        ("compare", "--keys", "1", "2.."),
        ("compare", "--servers", "8", "1..=7"),
        ("compare", "--reads", "101", "0..=100"),
        ("compare", "--in-flight", "4097", "1..=4096"),
        ("tables", "--seconds", "0", "1..=3600"),
        ("tables", "--rounds", "101", "1..=100"),
        ("tables", "--only", "x", "[possible values: a, b, c, d, e, f, g, h, i, j]"),
        ("tables", "--log-mib", "2049", "0..=2048"),
    ];
    for (command, option, value, limits) in cases {
        let message = refusal(&[command, option, value]);
        assert!(message.contains(option) && message.contains(limits), "{message}");
    }
}

#[test]
fn persistent_memory_is_emulated_on_a_tmpfs_only() {
    for folder in ["/proc", "/nowhere/at/all"] {
        for tables in ["a,b", "f", "g", "h"] {
            let message = refusal(&["tables", "--only", tables, "--log-folder", folder]);
            assert!(message.contains(&format!("--log-folder: {folder} is no tmpfs")), "{message}");
        }
    }
}

#[test]
fn a_rival_that_is_not_there_is_named() {
    let message = refusal(&["compare", "--stores", "redis"]);
    assert!(message.contains("there is no redis-server on PATH"), "{message}");
}

#[test]
fn a_table_beside_rivals_names_those_that_are_not_there_and_measures_the_others() {
    let args = "tables --only d --seconds 1 --warm-up 0 --rounds 1 --keys 1000 --in-flight 1";
    let output = Command::new(env!("CARGO_BIN_EXE_dtranx-bench"))
        .args(args.split(' '))
        // Without a cache folder etcd cannot be built.
        .env_remove("HOME")
        .env_remove("XDG_CACHE_HOME")
        .output()
        .unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(message.matches("\nNot measured: etcd, ").count(), 2, "with three servers and with one: {message}");
    assert_eq!(message.matches("| dtranx          | ").count(), 2, "{message}");
    assert_eq!(message.matches("| dtranx, a group | ").count(), 1, "{message}");
}
