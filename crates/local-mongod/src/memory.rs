//! A folder whose data lies in memory instead of on a disk.

use std::path::{Path, PathBuf};

const FOLDER: &str = "/dev/shm";
/// Bytes that have to be free there, and in memory, for all servers of a test run together.
const ROOM: u64 = 6 << 30;
const MEMORY: u64 = 10 << 30;

/// The folder, if it has room for servers.
pub(crate) fn folder() -> Option<PathBuf> {
    let free = rustix::fs::statvfs(FOLDER).ok()?;
    let memory = available(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let is_roomy = free.f_bavail.saturating_mul(free.f_frsize) >= ROOM && memory >= MEMORY;
    is_roomy.then(|| Path::new(FOLDER).to_owned())
}

/// Bytes of memory that programs can have, as `/proc/meminfo` states it.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let meminfo = "MemTotal:       24737380 kB\nMemFree:        1 kB\nMemAvailable:   24001234 kB\n";
        assert_eq!(available(meminfo), Some(24_001_234 * 1_024));
        for nothing in
            ["", "MemFree: 5 kB", "MemAvailable: many kB", "MemAvailable: 5", "MemAvailable: 99999999999999999999 kB"]
        {
            assert_eq!(available(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn folder_is_one_that_can_be_written_to() {
        if let Some(folder) = folder() {
            tempfile::tempdir_in(folder).unwrap();
        }
    }
}
