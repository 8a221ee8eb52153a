//! Reason why a subcommand failed, in words for the user who ran it.

use std::fmt;

/// Exit status of the program.
pub type Status = u8;
/// The exit status of a subcommand that found everything in order.
pub const WELL: Status = 0;
/// The exit status of a subcommand that found something wrong.
pub const WRONG: Status = 1;
/// The exit status of everything that could not be carried out, the same as for options that clap
/// refuses.
const CANNOT: Status = 2;

/// Failure of a subcommand: its message and its exit status.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: Status,
}

impl Failure {
    /// A failure with exit status 2.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: CANNOT }
    }

    /// Ended by a signal: exit status 128 + its number, as shells report it.
    pub fn interrupted(signal: u8) -> Self {
        Self { message: "interrupted; everything that was started is gone".to_owned(), status: 128 + signal }
    }

    /// Puts the interrupted action before the message.
    pub fn while_doing(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Reports the failure to the user, and returns the exit status.
    pub fn report(&self) -> Status {
        let lines: Vec<String> = self.message.lines().map(crate::say::plain).collect();
        crate::say::warn(&format!("error: {}", lines.join("\n")));
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<mongotx::Error> for Failure {
    fn from(error: mongotx::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<mongodb::error::Error> for Failure {
    fn from(error: mongodb::error::Error) -> Self {
        Self::new(format!("the server refused: {error}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<local_mongod::Error> for Failure {
    fn from(error: local_mongod::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Puts the interrupted action before the message of an error.
pub trait Context<T> {
    /// The same result, its error beginning with `what`.
    fn context(self, what: &str) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn context(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| error.into().while_doing(what))
    }
}
