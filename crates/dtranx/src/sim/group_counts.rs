//! What happened to the groups of a run, counted.

/// Numbers of what happened to the groups of one run, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCounts {
    /// Number of lives that have begun.
    pub(crate) lives: usize,
    /// Number of lives that have begun while an earlier one of the same group went on.
    pub(crate) overlaps: usize,
    /// Number of members' disks that were lost for good.
    pub(crate) lost_disks: usize,
}

impl GroupCounts {
    /// Adds what happened in another run.
    pub(crate) fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.overlaps += other.overlaps;
        self.lost_disks += other.lost_disks;
    }
}
