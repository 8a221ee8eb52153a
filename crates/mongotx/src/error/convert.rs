//! Errors of `sd2v` and `bson` as errors of this crate, and the words of the official driver's
//! errors for people. Errors of servers are sorted where their answers are read.

use super::{Error, ErrorKind};

/// The message of an error of the official driver, without its internal states and labels. For a
/// program that has a connection of its own beside MongoTx's, and shows both kinds of errors to
/// people.
///
/// ```
/// let error = mongodb::error::Error::from(std::io::Error::other("connection reset"));
/// assert_eq!(mongotx::error::driver_words(&error), "connection reset");
/// ```
pub fn driver_words(error: &mongodb::error::Error) -> String {
    use mongodb::error::ErrorKind as Kind;
    let words = match error.kind.as_ref() {
        Kind::Io(error) => error.to_string(),
        Kind::ConnectionPoolCleared { .. } => "its connections were closed, because one of them has failed".to_owned(),
        kind => kind.to_string(),
    };
    // The message ends where the driver prints what it knows of each server, and the cause of the
    // error, both as they are in memory.
    let end = ["Topology:", "Kind:"].iter().filter_map(|debugged| words.find(debugged)).min().unwrap_or(words.len());
    words[..end].trim_end_matches([' ', ':', '.']).to_owned()
}

impl From<sd2v::Error> for Error {
    fn from(error: sd2v::Error) -> Self {
        let message = error.to_string();
        match error {
            sd2v::Error::Reserved { .. } => Self::invalid(2, message),
            sd2v::Error::Unsupported { .. } => Self::unsupported(message),
            sd2v::Error::Invalid { code, .. } => Self::invalid(code, message),
            sd2v::Error::Corrupt { .. } => Self::new(ErrorKind::Corruption, message),
        }
    }
}

impl From<bson::error::Error> for Error {
    fn from(error: bson::error::Error) -> Self {
        Self::invalid(22, format!("cannot be converted to or from BSON: {error}"))
    }
}
