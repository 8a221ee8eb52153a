//! The bar that shows the progress of a benchmark on the terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for so many measurements.
pub(crate) fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
