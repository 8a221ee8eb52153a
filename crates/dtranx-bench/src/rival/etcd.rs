//! etcd, built once from its published modules with the Go toolchain and kept in the user's cache
//! folder.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use child_processes::{Process, Start, pick_free_port, run_limited};
use tempfile::TempDir;

use super::folder;
use crate::error::BenchError;

/// Version that go.mod names.
const VERSION: &str = "3.6.6";
const SOURCES: [(&str, &str); 3] = [
    ("main.go", include_str!("../../rivals/etcd/main.go")),
    ("go.mod", include_str!("../../rivals/etcd/go.mod")),
    ("go.sum", include_str!("../../rivals/etcd/go.sum")),
];
/// Time limit of fetching and compiling, on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// Servers of etcd that run.
pub(crate) struct Etcd {
    urls: Vec<String>,
    _processes: Vec<Process>,
    _folder: TempDir,
}

impl Etcd {
    /// Starts so many of them as one cluster; they do not answer yet.
    pub(crate) fn start(servers: u16) -> Result<Self, BenchError> {
        let program = program()?;
        let folder = folder("etcd")?;
        let nodes = (0..servers).map(Node::new).collect::<Result<Vec<_>, _>>()?;
        let cluster: Vec<String> = nodes.iter().map(|node| format!("{}={}", node.name, node.peer_url())).collect();
        let start = |node: &Node| {
            let console = folder.path().join(format!("{}.log", node.name));
            let args = node.args(folder.path(), &cluster.join(","));
            Process::start(&Start { program: &program, args: &args, console: &console, folder: folder.path() })
        };
        let processes = nodes.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { urls: nodes.iter().map(Node::client_url).collect(), _processes: processes, _folder: folder })
    }

    /// Addresses of the servers for clients.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }
}

struct Node {
    name: String,
    client: u16,
    peer: u16,
}

impl Node {
    fn new(number: u16) -> Result<Self, BenchError> {
        Ok(Self { name: format!("n{number}"), client: pick_free_port()?, peer: pick_free_port()? })
    }

    fn client_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client)
    }

    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer)
    }

    fn args(&self, folder: &Path, cluster: &str) -> Vec<OsString> {
        let options: [(&str, String); 9] = [
            ("--name", self.name.clone()),
            ("--data-dir", folder.join(&self.name).display().to_string()),
            ("--listen-client-urls", self.client_url()),
            ("--advertise-client-urls", self.client_url()),
            ("--listen-peer-urls", self.peer_url()),
            ("--initial-advertise-peer-urls", self.peer_url()),
            ("--initial-cluster", cluster.to_owned()),
            ("--initial-cluster-state", "new".to_owned()),
            ("--log-level", "error".to_owned()),
        ];
        options.into_iter().flat_map(|(name, value)| [name.into(), value.into()]).collect()
    }
}

/// The binary; it is built if it is not there yet.
fn program() -> Result<PathBuf, BenchError> {
    let place = cache()?.join(format!("etcd-{VERSION}")).join("etcd");
    if !place.is_file() {
        build(&place).map_err(missing)?;
    }
    Ok(place)
}

fn missing(reason: String) -> BenchError {
    BenchError::Missing { rival: "etcd", reason }
}

fn cache() -> Result<PathBuf, BenchError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let none =
        || missing("no cache folder to build it into: set HOME or XDG_CACHE_HOME to an absolute path".to_owned());
    folder.map(|folder| folder.join("mongotx")).ok_or_else(none)
}

/// Builds the binary beside its place first, so that half of one is never there.
fn build(place: &Path) -> Result<(), String> {
    let folder = place.parent().ok_or("no folder to build it into")?;
    let io = |error: std::io::Error| format!("it cannot be built in {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(io)?;
    let work = tempfile::tempdir_in(folder).map_err(io)?;
    for (name, text) in SOURCES {
        fs::write(work.path().join(name), text).map_err(io)?;
    }
    eprintln!("dtranx-bench: building etcd {VERSION} from its modules, once ...");
    let mut go = Command::new("go");
    go.args(["build", "-o", "etcd", "."]).current_dir(work.path());
    let done = run_limited(go, BUILD_LIMIT).map_err(|error| format!("{error}; building it needs Go 1.24 or later"))?;
    if !done.status.success() {
        return Err(format!("go could not build it:\n{}", done.said));
    }
    fs::rename(work.path().join("etcd"), place).map_err(io)
}
