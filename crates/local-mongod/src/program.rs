//! Running a program that is tested, and waiting for what it does.

use std::{process::Output, thread::sleep, time::Duration};

/// Interval between two looks at a condition, and their number: minutes in all, for a slow machine.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 1_200;

/// The exit status of a program that has ended (-1: by a signal), and both its outputs in one text.
pub fn status_and_output(output: &Output) -> (i32, String) {
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code().unwrap_or(-1), said.concat())
}

/// Waits until it is true, for minutes if need be.
///
/// # Panics
/// Where it does not become true.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if condition() {
            return;
        }
        sleep(LOOK);
    }
    panic!("never came true: {what}");
}
