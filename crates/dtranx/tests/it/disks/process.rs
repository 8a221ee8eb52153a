//! A server in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dtranx::cluster::HeldPort;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tempfile::TempDir;

/// How to start it.
pub(crate) struct Setup {
    files: TempDir,
    _port: HeldPort,
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
    pub(crate) log_folder: PathBuf,
    pub(crate) medium: &'static str,
    pub(crate) segment_mib: u64,
}

impl Setup {
    /// With everything in a folder of its own.
    pub(crate) fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let port = HeldPort::pick().unwrap();
        let (folder, log_folder) = (files.path().join("data"), files.path().join("log"));
        let address = port.address();
        Self { files, _port: port, address, folder, log_folder, medium: "disk", segment_mib: 16 }
    }

    /// Starts it.
    ///
    /// # Errors
    /// What it said when it ended instead.
    pub(crate) fn start(&self) -> Result<Process, String> {
        self.start_limited("unlimited")
    }

    /// Starts it; it may write files of so many blocks of 512 bytes.
    ///
    /// # Errors
    /// What it said when it ended instead.
    pub(crate) fn start_limited(&self, blocks: &str) -> Result<Process, String> {
        let mut child =
            self.command(blocks).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let process = Process { child };
        if line.contains("listens on") { Ok(process) } else { Err(process.end()) }
    }

    fn command(&self, blocks: &str) -> Command {
        let config = self.files.path().join("server.toml");
        std::fs::write(&config, self.config()).unwrap();
        let mut command = Command::new("sh");
        // Who writes too much is told so, and not killed.
        command.args(["-c", "trap '' XFSZ; ulimit -S -f \"$1\"; shift; exec \"$@\"", "sh", blocks]);
        command.args([env!("CARGO_BIN_EXE_dtranx"), "serve", "--until-stdin-closes", "--config"]).arg(config);
        command
    }

    /// Nothing is collected while a test runs.
    fn config(&self) -> String {
        format!(
            "cluster = \"disks\"\nserver = 1\nfolder = \"{}\"\nlog_folder = \"{}\"\n\
             servers = [{{ id = 1, address = \"{}\" }}]\n\
             medium = \"{}\"\n\
             [limits]\nsegment_mib = {}\ngc_interval_ms = 3600000\n[threads]\npinned = false\n",
            self.folder.display(),
            self.log_folder.display(),
            self.address,
            self.medium,
            self.segment_mib,
        )
    }
}

/// It runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// From now on no file may grow beyond so many bytes.
    pub(crate) fn limit_files(&self, bytes: u64) {
        let process = Pid::from_raw(self.child.id() as i32);
        let limit = Rlimit { maximum: getrlimit(Resource::Fsize).maximum, current: Some(bytes) };
        prlimit(process, Resource::Fsize, limit).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends by itself, and gives what it said then: it must have failed.
    pub(crate) fn end(mut self) -> String {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(2), "{said}");
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All of these must be in what was said.
pub(crate) fn assert_said(said: &str, folder: &Path, reasons: &[&str]) {
    assert!(said.contains(folder.to_str().unwrap()), "{said:?} does not name {}", folder.display());
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said:?} says none of {reasons:?}");
}
