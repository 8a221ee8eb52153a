//! Description of the machine that a measurement ran on: its size, and the file systems of its
//! folders.

use std::path::Path;

use rustix::fs::statfs;
use serde::Serialize;

/// File systems by the number that they give themselves (`statfs(2)`).
const KNOWN: [(u32, &str); 7] = [
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x794c_7630, "overlay"),
    (0x2fc1_2fc1, "zfs"),
];

/// Size of the machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    memory_mib: u64,
    kernel: String,
    data_on: String,
}

impl Machine {
    /// Describes this machine. What the system does not report stays empty.
    pub(crate) fn look() -> Self {
        let read = |file| std::fs::read_to_string(file).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            memory_mib: kib >> 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            data_on: file_system(&std::env::temp_dir()),
        }
    }

    /// Description of the machine in one line.
    pub(crate) fn heading(&self) -> String {
        let Self { cores, processor, memory_mib, kernel, data_on } = self;
        format!("{cores} cores ({processor}), {memory_mib} MiB of memory, Linux {kernel}; data on {data_on}")
    }
}

/// The name of a folder's file system, or its number.
pub(crate) fn file_system(folder: &Path) -> String {
    match statfs(folder) {
        Ok(found) => {
            let kind = found.f_type as u32;
            let known = KNOWN.iter().find(|(number, _)| *number == kind);
            known.map_or_else(|| format!("file system {kind:#x}"), |(_, name)| (*name).to_owned())
        }
        Err(error) => format!("nothing: {error}"),
    }
}

/// Returns true if the folder is in memory, and gone with the power.
pub(crate) fn is_in_memory(folder: &Path) -> bool {
    matches!(file_system(folder).as_str(), "tmpfs" | "ramfs")
}

/// Bytes that are free in a folder.
pub(crate) fn free_bytes(folder: &Path) -> u64 {
    statfs(folder).map_or(0, |found| found.f_bavail.saturating_mul(found.f_bsize as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_cores_and_memory() {
        let machine = Machine::look();
        assert!(machine.cores > 0 && machine.memory_mib > 0, "{machine:?}");
        assert!(file_system(Path::new("/nowhere/at/all")).starts_with("nothing: "));
    }
}
