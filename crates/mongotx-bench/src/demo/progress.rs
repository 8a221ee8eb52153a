//! The display while the bank runs: a bar on a terminal, a line now and then anywhere else, and the
//! figures of the page.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{live::Live, tally::Tally};
use crate::failure::Failure;

/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The progress of a run: see the module's header.
pub(super) struct Progress {
    begun: Instant,
    bar: Option<ProgressBar>,
    last_line: Instant,
    live: Live,
}

impl Progress {
    /// A display for a run of this length.
    pub(super) fn new(length: Duration, live: &Live) -> Result<Self, Failure> {
        let now = Instant::now();
        let bar = if std::io::stdout().is_terminal() { Some(bar(length)?) } else { None };
        Ok(Self { begun: now, bar, last_line: now, live: live.clone() })
    }

    /// Shows the progress.
    pub(super) fn show(&mut self, tally: &Tally) {
        let elapsed = self.begun.elapsed();
        self.live.count(tally, elapsed);
        match &self.bar {
            Some(bar) => {
                bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
                bar.set_message(words(tally, elapsed));
            }
            None if self.last_line.elapsed() >= LINE_EVERY => {
                self.last_line = Instant::now();
                self.live.line(&format!("   {:>4} s  {}", elapsed.as_secs(), words(tally, elapsed)));
            }
            None => {}
        }
    }

    /// Leaves the last state on its line.
    pub(super) fn finish(mut self, tally: &Tally) {
        self.show(tally);
        if let Some(bar) = self.bar {
            bar.abandon();
        }
    }
}

fn bar(length: Duration) -> Result<ProgressBar, Failure> {
    let style = ProgressStyle::with_template("   [{bar:12}] {wide_msg}")
        .map_err(|error| Failure::new(format!("the progress bar: {error}")))?
        .progress_chars("=> ");
    let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    Ok(ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stdout()).with_style(style))
}

/// The progress in words, the most important first: a narrow terminal cuts the end off.
fn words(tally: &Tally, elapsed: Duration) -> String {
    let stats = tally.stats();
    format!(
        "{}{} transfers ({:.0}/s), {} kills, {} conflicts, {} repairs, {} sums",
        if tally.wrong_sums > 0 { format!("{} WRONG SUMS, ", tally.wrong_sums) } else { String::new() },
        tally.done.len(),
        tally.per_second(elapsed),
        tally.kills,
        stats.conflicts,
        stats.finished_for_others + stats.undone_for_others,
        tally.sums,
    )
}
