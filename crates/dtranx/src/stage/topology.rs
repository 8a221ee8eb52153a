//! The order in which threads take the machine's cores: neighbours in the line of stages share a
//! package and its caches, and no thread gets the second half of a core as long as another core is
//! whole.

use std::collections::BTreeMap;
use std::fs;

/// The cores that this process may use, as indexes for [`super::binding::bind`], the best first:
/// every core of the first package once, then of the next one; then their second hardware threads.
/// Never more than the process gets time on.
pub(crate) fn cores() -> Vec<usize> {
    let ids: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    let mut ordered = order(&ids, |cpu, file| {
        let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}")).ok()?;
        text.trim().parse().ok()
    });
    ordered.truncate(std::thread::available_parallelism().map_or(1, usize::from));
    ordered
}

/// `read` returns a number about a processor; where it cannot, each processor counts as a core of
/// its own, of one package.
fn order(ids: &[usize], read: impl Fn(usize, &str) -> Option<u64>) -> Vec<usize> {
    let mut threads: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let mut placed: Vec<_> = Vec::with_capacity(ids.len());
    for (index, cpu) in ids.iter().enumerate() {
        let package = read(*cpu, "physical_package_id").unwrap_or(0);
        let core = read(*cpu, "core_id").unwrap_or(*cpu as u64);
        let nth = threads.entry((package, core)).or_default();
        placed.push((*nth, package, index));
        *nth += 1;
    }
    placed.sort_unstable();
    placed.into_iter().map(|(.., index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of two cores with two hardware threads each, numbered as Linux usually does.
    fn two_packages(cpu: usize, file: &str) -> Option<u64> {
        match file {
            "physical_package_id" => Some((cpu as u64 / 2) % 2),
            _ => Some(cpu as u64 % 2),
        }
    }

    #[test]
    fn order_whole_cores_first_and_package_by_package() {
        let all: Vec<usize> = (0..8).collect();
        assert_eq!(order(&all, two_packages), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Hardware threads of one core side by side: 0 and 1, 2 and 3.
        let paired = |cpu: usize, file: &str| (file == "core_id").then_some(cpu as u64 / 2);
        assert_eq!(order(&[0, 1, 2, 3], paired), [0, 2, 1, 3]);
    }

    #[test]
    fn order_of_a_part_of_the_machine_is_by_index() {
        // Processors 5, 1 and 3: 5 and 1 are threads of one core.
        assert_eq!(order(&[5, 1, 3], two_packages), [0, 2, 1]);
    }

    #[test]
    fn order_unknown_topology_is_as_given() {
        assert_eq!(order(&[4, 6, 9], |_, _| None), [0, 1, 2]);
    }

    #[test]
    fn cores_are_some_and_different() {
        let mut cores = cores();
        let many = cores.len();
        cores.sort_unstable();
        cores.dedup();
        assert!(many > 0 && cores.len() == many);
    }
}
