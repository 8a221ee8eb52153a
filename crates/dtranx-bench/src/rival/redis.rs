//! `redis-server` from the `PATH`, with everything on disk before it answers.

use std::path::Path;

use child_processes::{Process, Start, pick_free_port};
use tempfile::TempDir;

use super::folder;
use crate::error::BenchError;

/// A server of Redis that runs.
pub(crate) struct Redis {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl Redis {
    /// Starts it; it does not answer yet.
    pub(crate) fn start() -> Result<Self, BenchError> {
        let folder = folder("redis")?;
        let port = pick_free_port()?;
        let options = [
            ("--bind", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
            ("--dir", folder.path().display().to_string()),
            ("--appendonly", "yes".to_owned()),
            ("--appendfsync", "always".to_owned()),
            ("--save", String::new()),
        ];
        let args: Vec<_> = options.into_iter().flat_map(|(name, value)| [name.into(), value.into()]).collect();
        let console = folder.path().join("console.log");
        let start = Start { program: &program()?, args: &args, console: &console, folder: folder.path() };
        Ok(Self { port, _process: Process::start(&start)?, _folder: folder })
    }

    /// Address of the server for clients.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

fn program() -> Result<std::path::PathBuf, BenchError> {
    let found = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path)
            .map(|folder: std::path::PathBuf| folder.join("redis-server"))
            .find(|file| file.is_file())
    });
    let missing = || "there is no redis-server on PATH: install Redis 7 (Debian: redis-server)".to_owned();
    found.as_deref().map(Path::to_path_buf).ok_or_else(|| BenchError::Missing { rival: "redis", reason: missing() })
}
