//! Stages that share a thread, and the core that a thread is bound to (sections 3.1 and 4.5).
//!
//! The paper found one thread for each stage best as long as there is a core for each. With fewer
//! cores, stages that never block share a thread, so that an event goes through them without a
//! change of context; those that block (the storage on a disk, the log on a disk, the collection of
//! garbage) have threads of their own, bound to no core.

/// The way in which threads are bound to cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// The scheduler moves them as it likes.
    Unpinned,
    /// Chosen by the machine's cores: see [`layout`].
    #[default]
    Auto,
    /// By hand: for each thread, in order, its core; further threads are not bound.
    Cores(Vec<usize>),
}

/// A stage, as the layout needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name of the stage, as in its counters.
    pub stage: &'static str,
    /// True if the stage waits for disks.
    pub blocks: bool,
}

/// The threads for these stages on these cores, the best first: for each thread the stages' names,
/// and its core if it is bound.
///
/// With a core for each stage, each has a thread there. Otherwise the stages that do not block are
/// divided among the cores in runs of neighbours (they are given in the order in which an event
/// passes them), and the others are not bound.
pub fn layout(stages: &[Layout], cores: &[usize], binding: &Binding) -> Vec<(Vec<&'static str>, Option<usize>)> {
    let mut threads: Vec<(Vec<&'static str>, Option<usize>)> = Vec::new();
    if cores.len() >= stages.len() {
        threads.extend(stages.iter().zip(cores).map(|(stage, core)| (vec![stage.stage], Some(*core))));
    } else {
        let busy: Vec<_> = stages.iter().filter(|stage| !stage.blocks).map(|stage| stage.stage).collect();
        let share = busy.len().div_ceil(cores.len().max(1)).max(1);
        threads.extend(busy.chunks(share).enumerate().map(|(at, run)| (run.to_vec(), cores.get(at).copied())));
        threads.extend(stages.iter().filter(|stage| stage.blocks).map(|stage| (vec![stage.stage], None)));
    }
    for (at, (_, core)) in threads.iter_mut().enumerate() {
        match binding {
            Binding::Auto => {}
            Binding::Unpinned => *core = None,
            Binding::Cores(given) => *core = given.get(at).copied(),
        }
    }
    threads
}

/// Binds the current thread to the machine's core of that index; `false` when there is none or it
/// is not allowed.
pub(super) fn bind(core: usize) -> bool {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    cores.get(core).is_some_and(|core| core_affinity::set_for_current(*core))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [Layout; 4] = [
        Layout { stage: "network", blocks: false },
        Layout { stage: "transaction", blocks: false },
        Layout { stage: "wal", blocks: true },
        Layout { stage: "gc", blocks: true },
    ];

    #[test]
    fn layout_enough_cores_one_each() {
        let threads = layout(&STAGES, &[0, 2, 1, 3], &Binding::Auto);
        let cores: Vec<_> = threads.iter().map(|(stages, core)| (stages.len(), *core)).collect();
        assert_eq!(cores, [(1, Some(0)), (1, Some(2)), (1, Some(1)), (1, Some(3))]);
    }

    #[test]
    fn layout_few_cores_blocking_stages_are_not_bound() {
        let threads = layout(&STAGES, &[0, 1], &Binding::Auto);
        let expected =
            [(vec!["network"], Some(0)), (vec!["transaction"], Some(1)), (vec!["wal"], None), (vec!["gc"], None)];
        assert_eq!(threads, expected);
        assert_eq!(layout(&STAGES, &[0], &Binding::Auto)[0], (vec!["network", "transaction"], Some(0)));
    }

    #[test]
    fn layout_by_hand_and_unpinned() {
        assert!(layout(&STAGES, &[0, 1, 2, 3, 4, 5, 6, 7], &Binding::Unpinned).iter().all(|(_, core)| core.is_none()));
        let by_hand = layout(&STAGES, &[0, 1], &Binding::Cores(vec![1]));
        assert_eq!(by_hand.iter().map(|(_, core)| *core).collect::<Vec<_>>(), [Some(1), None, None, None]);
    }
}
