//! Why something could not be measured, or its result not be read or written.

/// An error with a message for the person who asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is wrong, or asks for something that cannot be done. Names the option or the
    /// file.
    #[error("{0}")]
    Refused(String),
    /// The measurement failed, or a result could not be read or written.
    #[error("{0}")]
    Failed(String),
}
