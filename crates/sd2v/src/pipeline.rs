//! Aggregation pipelines: the user's stages, made to run on stored documents.
//!
//! Every collection that a pipeline reads is mapped where it is read, so that the user's own stages
//! see documents exactly as the application wrote them. What is read so: the collection of the
//! command, `$lookup`, `$graphLookup` and `$unionWith`, in sub-pipelines of any depth.
//!
//! - [`map_pipeline`]: the whole. `collection`: the stages that read one collection. `lookup`:
//!   those that read another.
//! - `front`: how far a pipeline runs on stored documents as they are. `whole`: whether reserved
//!   fields could surface.
//! - `check`: reserved names in stages. `output`: `$out` and `$merge`. `views`: the server's views.
//!
//! | a collection is read | stages before the user's |
//! | --- | --- |
//! | safe versions | `$match` of the leading filter without pending inserts, the `$match`, `$sort`, `$skip`, `$limit`, `$sample` that follow, then `$unset` of the reserved fields if they could surface |
//! | with own writes | [`crate::view::select`], [`crate::view::map`], the leading filter |
//! | with own writes, `$match` `$sort` `$limit` | the same of each half: safe versions from the index, then the own ones |
//!
//! A stage that is not known here is passed on when nothing in it could name a collection, with
//! clean documents before it; the server knows, or refuses it.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document};
use protocol::TxId;

use crate::{error::Error, expression::path, visible::Visible};

mod check;
mod collection;
mod front;
mod lookup;
mod output;
mod special;
mod views;
mod whole;

pub use output::{Merge, Output, WhenMatched, WhenNotMatched, merge_on_slot, split_output};
pub use views::{View, expand_views, named_collections};

use self::special::Opening;

const CONTEXT: &str = "in a pipeline";

/// The collections that can be read, and which version of their documents is visible.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Transaction that runs the pipeline. `None`: outside transactions.
    pub me: Option<TxId>,
    /// The collections that it has written to.
    pub written: BTreeSet<String>,
    /// Others whose unsafe versions are read, by collection: committed ones whose documents cannot
    /// be finished.
    pub visible: BTreeMap<String, Vec<TxId>>,
    /// Conditions that bound what is read of a collection: the documents that are read-locked.
    pub only: BTreeMap<String, Document>,
    /// Strings compare by a collation, so that an `_id` equals others.
    pub collated: bool,
    /// Geospatial field of each collection for `$geoNear` without `key`:
    /// [`crate::geo::only_geo_field`].
    pub geo_fields: BTreeMap<String, String>,
    /// Documents that wait to be inserted have no field but their `_id`: see
    /// [`crate::view::safe_filter`].
    pub bare_inserts: bool,
}

impl Sources {
    /// Transactions whose unsafe versions are read of a collection.
    fn visible(&self, collection: &str) -> Option<Visible> {
        let mine = self.me.filter(|_| self.written.contains(collection));
        let others = self.visible.get(collection).into_iter().flatten().copied();
        Visible::of(mine.into_iter().chain(others))
    }
}

/// A collection that a pipeline reads, and the condition on what it reads there.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// Name of the collection, in the database of the command.
    pub collection: String,
    /// Condition on the documents that are read. Empty: every document.
    pub filter: Document,
}

/// A pipeline for the server.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// Stages of the pipeline that is sent.
    pub stages: Vec<Document>,
    /// Collections that the stages read, each once, the one of the command first.
    pub reads: Vec<Read>,
    /// True if they may stand in a `$unionWith` of the command's collection.
    pub stands_in_union: bool,
    /// Collections with a `$geoNear` for which [`Sources::geo_fields`] has no answer: to be mapped
    /// again with one.
    pub without_geo_field: BTreeSet<String>,
}

/// The user's pipeline on stored documents. `main`: the collection of the command, none at the
/// level of a database. `stripped`: the client takes reserved fields away from the answer, so that
/// documents may come out with them.
///
/// # Errors
/// [`Error::Reserved`]; [`Error::Unsupported`] for what cannot be mapped, by name;
/// [`Error::Invalid`] for a stage that is no document with one field (40323) and for one that nests
/// too deep (15).
pub fn map_pipeline(main: Option<&str>, user: &[Document], sources: &Sources, stripped: bool) -> Result<Mapped, Error> {
    let mut mapper = Mapper { sources, reads: Vec::new(), without_geo_field: BTreeSet::new() };
    let place = Place { is_answer: stripped, in_lookup: false, by_field: false };
    let opening = Opening::of(user.first());
    let stages = match main {
        Some(main) => mapper.collection(main, user, place, 0)?,
        None => mapper.stages(user, place, 0)?,
    };
    let stands_in_union = main.is_some() && opening != Opening::NoDocuments;
    Ok(Mapped { stages, reads: mapper.reads, stands_in_union, without_geo_field: mapper.without_geo_field })
}

/// Position of a (sub-)pipeline within the command.
#[derive(Clone, Copy)]
struct Place {
    /// The documents of the pipeline are the command's answer, which the client strips of reserved
    /// fields.
    is_answer: bool,
    /// True if its filters may read variables of a `$lookup`.
    in_lookup: bool,
    /// The server narrows the first collection that it reads by a `$lookup`'s field, and no other.
    by_field: bool,
}

struct Mapper<'a> {
    sources: &'a Sources,
    reads: Vec<Read>,
    without_geo_field: BTreeSet<String>,
}

impl Mapper<'_> {
    /// Notes what is read. Two different conditions on one collection are none.
    fn note(&mut self, collection: &str, filter: Document) {
        match self.reads.iter_mut().find(|read| read.collection == collection) {
            Some(read) if read.filter != filter => read.filter = Document::new(),
            Some(_) => {}
            None => self.reads.push(Read { collection: collection.to_owned(), filter }),
        }
    }

    /// Stages behind the reading of a collection: their documents are mapped already.
    fn stages(&mut self, user: &[Document], place: Place, depth: usize) -> Result<Vec<Document>, Error> {
        let depth = path::deeper(depth)?;
        let mut mapped = Vec::with_capacity(user.len());
        for (at, stage) in user.iter().enumerate() {
            let (name, spec) = parts(stage)?;
            check::check_stage(name, spec)?;
            self.stage(name, spec, user.get(at + 1), place, depth, &mut mapped)?;
        }
        Ok(mapped)
    }
}

/// Name and argument of a stage.
fn parts(stage: &Document) -> Result<(&str, &Bson), Error> {
    match stage.iter().next() {
        Some((name, spec)) if stage.len() == 1 => Ok((name, spec)),
        _ => Err(Error::Invalid {
            code: 40323,
            message: "a pipeline stage specification object must contain exactly one field".to_owned(),
        }),
    }
}

/// The stages of a sub-pipeline; what is none is the server's to refuse.
fn sub_pipeline(value: &Bson) -> Option<Vec<Document>> {
    value.as_array()?.iter().map(|stage| stage.as_document().cloned()).collect()
}

fn unsupported(construct: &str, reason: &'static str) -> Error {
    path::unsupported(construct, CONTEXT, reason)
}
