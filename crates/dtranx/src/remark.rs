//! What servers and commands say beside their answers, on the standard error output, and what a
//! panic does to their process.

use std::fmt::Display;
use std::io::{Write, stderr};
use std::panic::{set_hook, take_hook};
use std::process::exit;

/// Says something to people, as a line after `dtranx: `. The reader of the output may be gone, or
/// its disk full: a remark that cannot be written is dropped.
pub fn say(text: impl Display) {
    // One write, so that the remarks of several threads do not mix.
    let line = format!("dtranx: {text}\n");
    let _ = stderr().write_all(line.as_bytes());
}

/// From now on, a panic in any thread ends the process with status 2, once it has said why. A
/// process that serves nothing any more would look alive to whoever watches it.
pub fn end_process_on_panic() {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        usual(panic);
        exit(2);
    }));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Says to the process that a test has started that it is the one that panics.
    const PANICS: &str = "DTRANX_TEST_PANICS";

    #[test]
    fn panic_in_any_thread_ends_the_process_with_status_2() {
        if std::env::var_os(PANICS).is_some() {
            end_process_on_panic();
            drop(std::thread::spawn(|| panic!("on purpose")).join());
            return;
        }
        let name = "remark::tests::panic_in_any_thread_ends_the_process_with_status_2";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--nocapture"]).env(PANICS, "1");
        let output = command.stdout(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("on purpose"), "{said}");
    }
}
