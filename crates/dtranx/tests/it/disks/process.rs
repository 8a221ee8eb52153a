//! [`Setup`] and [`Process`]: a server in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dtranx::cluster::HeldPort;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tempfile::TempDir;

/// Configuration of a server process: its folders, address and log medium.
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
    /// Setup with all files in a temporary folder of its own.
    pub(crate) fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let port = HeldPort::pick().unwrap();
        let (folder, log_folder) = (files.path().join("data"), files.path().join("log"));
        let address = port.address();
        Self { files, _port: port, address, folder, log_folder, medium: "disk", segment_mib: 16 }
    }

    /// Starts the server without a limit on files.
    ///
    /// # Errors
    /// The server's error output, if it ended instead.
    pub(crate) fn start(&self) -> Result<Process, String> {
        self.start_limited("unlimited")
    }

    /// Starts the server with a limit on the size of its files, in blocks of 512 bytes.
    ///
    /// # Errors
    /// The server's error output, if it ended instead.
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
        // With the signal ignored, a write beyond the limit fails and does not kill the server.
        command.args(["-c", "trap '' XFSZ; ulimit -S -f \"$1\"; shift; exec \"$@\"", "sh", blocks]);
        command.args([env!("CARGO_BIN_EXE_dtranx"), "serve", "--until-stdin-closes", "--config"]).arg(config);
        command
    }

    /// Text of the configuration file. The interval of garbage collection is too long for any
    /// collection during a test.
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

/// A server process, which is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Sets the limit on the size of the process's files, in bytes.
    pub(crate) fn limit_files(&self, bytes: u64) {
        let process = Pid::from_raw(self.child.id() as i32);
        let limit = Rlimit { maximum: getrlimit(Resource::Fsize).maximum, current: Some(bytes) };
        prlimit(process, Resource::Fsize, limit).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until the server ends by itself with a failure, and returns its error output.
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
        // The process may have ended already, so that it cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks that an error output names the folder and at least one of the reasons.
pub(crate) fn assert_said(said: &str, folder: &Path, reasons: &[&str]) {
    assert!(said.contains(folder.to_str().unwrap()), "{said:?} does not name {}", folder.display());
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said:?} says none of {reasons:?}");
}
