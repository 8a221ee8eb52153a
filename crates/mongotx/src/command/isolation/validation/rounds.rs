//! The rounds of a validation: each reads again and looks again (steps 2 and 3), until one has
//! shown that what was read is of one moment, or there have been too many.

use std::{sync::Arc, time::Duration};

use super::{DividedReads, Reread, Rivals, Validation};
use crate::{
    coordinator::{
        finishing::lock_wait::LockWait,
        stamps::{change_look::ChangeLook, quiet::Quiet, tag::Tags},
        transaction::Transaction,
        validating::{
            looks::{FirstLook, begin_for},
            unchanged::ReadBaseline,
        },
    },
    error::{Error, ErrorKind, Result},
};

/// Limit of the rounds that others may disturb.
const ROUNDS: usize = 16;
/// Number of disturbed rounds before quiet is requested.
const DISTURBED: usize = 3;
/// Rounds that are left when quiet has run out.
const ROUNDS_WITHOUT_QUIET: usize = 3;
/// Shortest time that a transaction waits for a rival that holds what it has read.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// State of a validation between two rounds.
struct Rounds {
    /// Reading once is one moment: no look is needed.
    one_moment: bool,
    /// Change stamps of all reads.
    stamps: Tags,
    /// For what may be unchanged. `None`: everything is read again.
    baseline: Option<ReadBaseline>,
    /// The last look of the round before, which is the first of the next one.
    look: Option<FirstLook>,
    disturbed: usize,
    left: usize,
}

/// Result of one round of a validation.
enum Round {
    /// All reads are of one moment, and it is now.
    Valid,
    /// All reads would be of one moment, but for rivals that hold some documents and are not
    /// decided.
    HeldByRivals(Rivals),
    /// A read that seemed unchanged, and was not made again, has changed.
    Changed,
    /// Other clients have changed documents while they were read again.
    Disturbed,
}

impl Validation<'_> {
    /// Validates in rounds, until one has shown that what was read is of one moment.
    pub(super) async fn until_valid(&self, tx: &mut Transaction) -> Result<()> {
        let counters = &self.core.server.counters;
        let mut rounds = self.first_round(tx).await;
        let mut lock_wait = LockWait::new(tx.options.lock_wait.max(SHORTEST_WAIT));
        while rounds.left > 0 {
            match self.round(tx, &mut rounds).await? {
                Round::Valid => return Ok(()),
                Round::HeldByRivals(rivals) => self.wait_or_give_way(tx, &rivals, &mut lock_wait).await?,
                Round::Changed => {
                    // From now on everything is read again.
                    rounds.baseline = None;
                    counters.add(&counters.validations_unasked_in_vain, 1);
                }
                Round::Disturbed => {
                    (rounds.left, rounds.disturbed) = (rounds.left - 1, rounds.disturbed + 1);
                    self.note_disturbed(tx, &rounds).await;
                    // The quiet was too short for this validation: the next attempt asks for a
                    // longer one.
                    if tx.quiet.as_ref().is_some_and(Quiet::has_run_out) {
                        rounds.left = rounds.left.min(ROUNDS_WITHOUT_QUIET);
                    }
                }
            }
        }
        let disturbed = rounds.disturbed;
        let message = format!("what the transaction has read changed {disturbed} times while it was validated");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    async fn first_round(&self, tx: &Transaction) -> Rounds {
        let may_be_stale = tx.is_serializable() && tx.id().is_none() && self.core.server.nodes.are_several();
        // In quiet, the looks show that rivals may be passed by.
        let needs_looks = may_be_stale || tx.is_in_quiet();
        let one_moment = tx.reads_one_moment() && !needs_looks;
        let stamps = tx.stamps_of_reads();
        let baseline = if one_moment { None } else { self.read_baseline(tx).await };
        Rounds { one_moment, stamps, baseline, look: None, disturbed: 0, left: ROUNDS }
    }

    async fn round(&self, tx: &Transaction, rounds: &mut Rounds) -> Result<Round> {
        let DividedReads { parts, asked, unasked } = self.divide_reads(tx, rounds.baseline.as_ref());
        let asks = !parts.is_empty();
        let first = match rounds.look.take() {
            None if asks && !rounds.one_moment => Some(self.core.looks.first_look(tx, &rounds.stamps).await?),
            known => known,
        };
        let looks = first.is_some() && tx.is_wanted();
        let Reread { rivals, look: behind } = self.read_again(tx, parts, looks).await?;
        let may_pass_by = first.is_some() && tx.is_in_quiet();
        if !rivals.is_empty() && !may_pass_by {
            return Ok(Round::HeldByRivals(rivals));
        }
        if rounds.one_moment {
            return Ok(Round::Valid);
        }
        let later = self.later_look(tx, behind).await?;
        let is_unchanged = self.is_still_unchanged(rounds.baseline.as_ref(), &unasked, &later);
        let changed = first.map_or(Some(Tags::new()), |first| first.changed_at(&later, &rounds.stamps));
        let is_one_moment = changed.is_some_and(|changed| are_of_one_moment(tx, changed, &asked));
        if is_one_moment && is_unchanged && self.passes_by(tx, &rivals, &rounds.stamps, &later) {
            self.core.server.counters.add(&self.core.server.counters.validations_unasked, u64::from(!asks));
            return Ok(Round::Valid);
        }
        rounds.look = Some(self.core.looks.as_first(later, tx));
        Ok(match (is_unchanged, is_one_moment) {
            (false, _) => Round::Changed,
            (true, true) => Round::HeldByRivals(rivals),
            (true, false) => Round::Disturbed,
        })
    }

    /// The look behind the reads: the one that came with them, or else one that is sent now.
    async fn later_look(&self, tx: &Transaction, behind: Option<Arc<ChangeLook>>) -> Result<Arc<ChangeLook>> {
        let Some(behind) = behind else { return self.core.looks.look_at_changes(begin_for(tx)).await };
        self.core.server.counters.add(&self.core.server.counters.looks_behind, 1);
        Ok(behind)
    }

    /// Counts a round that others have disturbed, and asks for quiet if that was so for the last
    /// time without.
    async fn note_disturbed(&self, tx: &mut Transaction, rounds: &Rounds) {
        self.core.server.counters.add(&self.core.server.counters.validations_disturbed, 1);
        if rounds.disturbed == DISTURBED {
            self.core.quiet.ask_for_quiet(tx, &rounds.stamps).await;
        }
    }

    /// Returns true if these rivals will be validated again before they are decided. Then what was
    /// read comes before them.
    fn passes_by(&self, tx: &Transaction, rivals: &Rivals, stamps: &Tags, look: &ChangeLook) -> bool {
        let covered = rivals.is_empty() || tx.quiet.as_ref().is_some_and(|quiet| quiet.covers(rivals, stamps, look));
        if covered {
            self.core.server.counters.add(&self.core.server.counters.passed_by, rivals.len() as u64);
        }
        covered
    }

    async fn wait_or_give_way(&self, tx: &mut Transaction, rivals: &Rivals, lock_wait: &mut LockWait) -> Result<()> {
        // They may be some of those that the quiet keeps from deciding.
        self.core.quiet.end_quiet(tx).await;
        let Some(rival) = rivals.first().copied() else { return Ok(()) };
        let may_wait = tx.id().is_none_or(|me| me < rival);
        if !may_wait || std::time::Instant::now() >= lock_wait.deadline() {
            let message = format!("the transaction {rival} holds what this one has read, and is not decided");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let counters = &self.core.server.counters;
        counters.add(&counters.waits, 1);
        lock_wait.pause().await;
        Ok(())
    }
}

/// Returns true if everything that was read again is as it was at one moment. `changed`: the change
/// stamps that differ between the looks. Collections that were not read again do not count: they
/// have been the same all the time.
fn are_of_one_moment(tx: &Transaction, mut changed: Tags, asked: &Tags) -> bool {
    changed.retain(|tag| asked.contains(tag));
    tx.is_of_one_moment(&changed)
}
