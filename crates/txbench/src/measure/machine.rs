//! The machine's size, and the processor time of this process, as Linux reports them.

use std::fs::read_to_string;

/// Linux counts processor time in hundredths of a second.
const TICK_US: i64 = 10_000;

/// Description of the machine: processor, cores and memory.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let memory = field("/proc/meminfo", "MemTotal").and_then(|text| text.strip_suffix(" kB")?.parse::<f64>().ok());
    let memory = memory.map_or(String::new(), |kb| format!(", {:.0} GB of memory", kb / 1024.0 / 1024.0));
    format!("{processor}, {cores} cores{memory}, {}", std::env::consts::OS)
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
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
    fn description_has_cores_and_memory() {
        let text = describe();
        assert!(text.contains("cores") && text.contains("GB"), "{text}");
    }

    #[test]
    fn own_processor_time_is_known() {
        assert!(own_cpu_us().is_some());
    }
}
