//! Writing to the standard output. A reader that has gone away (`dtranx status | head`) is no
//! error.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};
use std::process::exit;

use dtranx::remark;

/// Writes a line like `println!`, and ends the command quietly when the reading end of its output
/// is closed.
macro_rules! say {
    ($($text:tt)*) => { crate::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

pub(crate) fn line(text: Arguments<'_>) {
    print_bytes(format!("{text}\n").as_bytes());
}

/// Writes bytes as they are, in the same way.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            remark::say(format_args!("cannot write the answer: {error}"));
            exit(2);
        }
    }
}

/// Writes a line of a server, which goes on if its output is closed.
pub(crate) fn tell(text: Arguments<'_>) {
    let _ = writeln!(stdout().lock(), "{text}").and_then(|()| stdout().flush());
}
