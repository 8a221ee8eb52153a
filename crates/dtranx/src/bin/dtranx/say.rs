//! Writing to the standard output. A reader that has gone away (`dtranx status | head`) is no
//! error.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};
use std::process::exit;

/// Writes a line like `println!`, and ends the command quietly when the reading end of its output
/// is closed.
macro_rules! say {
    ($($text:tt)*) => { crate::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

pub(crate) fn line(text: Arguments<'_>) {
    let mut out = stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            eprintln!("dtranx: cannot write the answer: {error}");
            exit(2);
        }
    }
}

/// Writes a line of a server, which goes on if its output is closed.
pub(crate) fn tell(text: Arguments<'_>) {
    let _ = writeln!(stdout().lock(), "{text}").and_then(|()| stdout().flush());
}
