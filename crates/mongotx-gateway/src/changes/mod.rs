//! Change streams: what is read of the events that committed transactions leave ([decision 0048]),
//! as drivers expect it.
//!
//! | file | |
//! | --- | --- |
//! | this one | the options that a client gives a stream |
//! | [`token`] | resume tokens (pure) |
//! | [`shape`] | events as MongoDB has them (pure) |
//! | [`stream`] | an open stream, and its batches |
//!
//! [decision 0048]: ../../../../docs/decisions/0048-change-streams.md

mod shape;
mod stream;
mod token;

use bson::{Document, Timestamp};
use mongotx::Namespace;

pub(crate) use self::{
    stream::{ChangeStream, Delivery, Sources},
    token::Token,
};

/// The collections whose changes a stream shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scope {
    Collection(Namespace),
    Database(String),
    Deployment,
}

/// The version of the changed document that is shown beside an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Image {
    /// Events show no version of the document.
    #[default]
    Off,
    /// The version that is in the event, if there is one.
    WhenAvailable,
    /// The version that is in the event; the stream ends if there is none.
    Required,
    /// For an update: the document as it is now.
    Lookup,
}

/// The place where a stream begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Start {
    /// With the first transaction that commits from now on.
    Now,
    /// Behind this place. `may_be_over`: also where the stream that it is of has ended.
    After { token: Token, may_be_over: bool },
    /// With the first event that is not earlier than this.
    At(Timestamp),
}

/// The options of a stream, as its client has given them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StreamOptions {
    pub(crate) scope: Scope,
    pub(crate) after: Image,
    pub(crate) before: Image,
    pub(crate) start: Start,
    /// Stages that are applied to each event, as the client has given them.
    pub(crate) stages: Vec<Document>,
    pub(crate) collation: Option<Document>,
    pub(crate) variables: Option<Document>,
}
