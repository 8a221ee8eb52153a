//! Description of the machine that a measurement ran on: its size, and the file systems of its
//! folders; and the processor time of this process. Linux reports all of it.

use std::{fmt, fs::read_to_string, path::Path};

use rustix::fs::statfs;
use serde::Serialize;

/// Linux counts processor time in hundredths of a second.
const TICK_US: i64 = 10_000;
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

/// Size of a machine. Displayed, it is a line of a report: processor, cores, memory, system.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Number of processor cores that this process may use.
    pub cores: usize,
    /// Name of the processor, or its architecture.
    pub processor: String,
    /// Size of the memory, in MiB; 0 if the system does not tell.
    pub memory_mib: u64,
    /// Version of the kernel; empty if the system does not tell.
    pub kernel: String,
    /// File system of the folder for temporary files.
    pub data_on: String,
}

impl Machine {
    /// Reads what the system says of the machine that this process runs on.
    pub fn look() -> Self {
        let memory = field("/proc/meminfo", "MemTotal").and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            memory_mib: memory.unwrap_or(0) >> 10,
            kernel: read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            data_on: file_system(&std::env::temp_dir()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, processor, memory_mib, kernel, .. } = self;
        let memory = match memory_mib {
            0 => String::new(),
            mib => format!(", {:.0} GB of memory", *mib as f64 / 1024.0),
        };
        let system = if kernel.is_empty() { std::env::consts::OS.to_owned() } else { format!("Linux {kernel}") };
        write!(f, "{processor}, {cores} cores{memory}, {system}")
    }
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
}

/// The name of a folder's file system, or its number.
pub fn file_system(folder: &Path) -> String {
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
pub fn is_in_memory(folder: &Path) -> bool {
    matches!(file_system(folder).as_str(), "tmpfs" | "ramfs")
}

/// Bytes that are free in a folder; 0 if the system does not tell.
pub fn free_bytes(folder: &Path) -> u64 {
    statfs(folder).map_or(0, |found| found.f_bavail.saturating_mul(found.f_bsize as u64))
}

/// The processor time that this process has used so far, in microseconds.
pub fn own_cpu_us() -> Option<i64> {
    let stat = read_to_string("/proc/self/stat").ok()?;
    // After the name in parentheses: state is the third field of all, user time the 14th, system
    // time the 15th.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<i64>().ok();
    Some((ticks(11)? + ticks(12)?) * TICK_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_cores_and_memory() {
        let machine = Machine::look();
        assert!(machine.cores > 0 && machine.memory_mib > 0, "{machine:?}");
        let words = machine.to_string();
        assert!(words.contains("cores") && words.contains("GB of memory"), "{words}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_on_no_file_system() {
        assert!(file_system(Path::new("/nowhere/at/all")).starts_with("nothing: "));
    }

    #[test]
    fn own_processor_time_is_known() {
        assert!(own_cpu_us().is_some());
    }
}
