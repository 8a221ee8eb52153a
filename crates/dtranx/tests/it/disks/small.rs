//! [`SmallDisk`]: a small file system in memory, in a mount namespace of its own, which this
//! process reaches through `/proc`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// A file system that exists as long as the shell that holds its mount namespace.
pub(crate) struct SmallDisk {
    shell: Child,
    tell: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    mount: TempDir,
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of this size, in KiB; `None` where mounts are not allowed.
    pub(crate) fn mount(size_kib: u64) -> Option<Self> {
        let ways: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];
        ways.into_iter().find_map(|way| Self::mounted(way, size_kib))
    }

    fn mounted(way: &[&str], size_kib: u64) -> Option<Self> {
        let piped = || Stdio::piped();
        let mut command = Command::new("unshare");
        command.args(way).arg("sh").stdin(piped()).stdout(piped()).stderr(Stdio::null());
        let mut shell = command.spawn().ok()?;
        let (tell, answers) = (shell.stdin.take(), BufReader::new(shell.stdout.take()?));
        let mount = tempfile::tempdir().unwrap();
        let path = PathBuf::from(format!("/proc/{}/root{}", shell.id(), mount.path().display()));
        let mut disk = Self { shell, tell, answers, mount, path };
        disk.run(&format!("mount -t tmpfs -o size={size_kib}k tmpfs {}", disk.mount.path().display())).then_some(disk)
    }

    /// Path of the file system for this process and its children.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Mounts the file system again with other options, such as `size=4m` or `ro`.
    pub(crate) fn remount(&mut self, options: &str) {
        let mount = self.mount.path().display().to_string();
        assert!(self.run(&format!("mount -o remount,{options} {mount}")), "it cannot be mounted with {options}");
    }

    fn run(&mut self, command: &str) -> bool {
        let Some(tell) = &mut self.tell else { return false };
        let asked = writeln!(tell, "{command} && echo done || echo failed");
        let mut answer = String::new();
        asked.is_ok() && self.answers.read_line(&mut answer).is_ok() && answer == "done\n"
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.tell.take());
        let _ = self.shell.wait();
    }
}
