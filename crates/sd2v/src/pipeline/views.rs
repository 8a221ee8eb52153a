//! The server's views, replaced by the collections that they are on, with their pipelines in front.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, doc};

use super::{parts, sub_pipeline, unsupported};
use crate::{error::Error, expression::path};

/// Number of views that may be based on one another; the server's limit.
const MAX_DEPTH: usize = 20;

/// Definition of a view: the collection or view that it reads, and its pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The collection or view that it is on.
    pub on: String,
    /// Stages of the view's pipeline.
    pub stages: Vec<Document>,
}

/// The other collections, or views, that a pipeline names.
///
/// # Errors
/// [`Error::Invalid`] when it nests too deep (15).
pub fn named_collections(user: &[Document]) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    name(user, &mut names, 0)?;
    Ok(names)
}

fn name(user: &[Document], names: &mut BTreeSet<String>, depth: usize) -> Result<(), Error> {
    let depth = path::deeper(depth)?;
    for (stage, spec) in user.iter().flatten() {
        match (stage.as_str(), spec) {
            ("$unionWith", Bson::String(other)) => drop(names.insert(other.clone())),
            ("$unionWith" | "$lookup" | "$graphLookup", Bson::Document(spec)) => {
                let key = if stage == "$unionWith" { "coll" } else { "from" };
                names.extend(spec.get_str(key).ok().map(str::to_owned));
                let inner = spec.get("pipeline").and_then(sub_pipeline).unwrap_or_default();
                name(&inner, names, depth)?;
            }
            ("$facet", Bson::Document(facets)) => {
                for inner in facets.values().filter_map(sub_pipeline) {
                    name(&inner, names, depth)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The collection to read instead of `main`, and the pipeline to run on it, without views.
///
/// # Errors
/// [`Error::Unsupported`] for `$lookup` by a field and `$graphLookup` into a view that does more
/// than filter; [`Error::Invalid`] when more than 20 views stand on each other (165), or the
/// pipeline nests too deep (15).
pub fn expand_views(
    main: Option<&str>,
    user: &[Document],
    views: &BTreeMap<String, View>,
) -> Result<(Option<String>, Vec<Document>), Error> {
    let expander = Expander { views };
    let user = expander.stages(user, 0)?;
    let Some(main) = main else { return Ok((None, user)) };
    let (base, mut stages) = expander.base_of(main, 0)?;
    stages.extend(user);
    Ok((Some(base), stages))
}

struct Expander<'a> {
    views: &'a BTreeMap<String, View>,
}

impl Expander<'_> {
    /// The collection under a view and the stages that make the view of it.
    fn base_of(&self, name: &str, depth: usize) -> Result<(String, Vec<Document>), Error> {
        let Some(view) = self.views.get(name) else { return Ok((name.to_owned(), Vec::new())) };
        if depth >= MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} views stand on each other below {name:?}");
            return Err(Error::Invalid { code: 165, message });
        }
        let (base, mut stages) = self.base_of(&view.on, depth + 1)?;
        stages.extend(self.stages(&view.stages, depth + 1)?);
        Ok((base, stages))
    }

    fn stages(&self, user: &[Document], depth: usize) -> Result<Vec<Document>, Error> {
        let depth = path::deeper(depth)?;
        user.iter()
            .map(|stage| {
                let (name, spec) = parts(stage)?;
                Ok(match (name, spec) {
                    ("$unionWith", Bson::String(other)) if self.views.contains_key(other) => {
                        doc! {name: self.union_with(&doc! {"coll": other}, depth)?}
                    }
                    ("$unionWith", Bson::Document(union)) => doc! {name: self.union_with(union, depth)?},
                    ("$lookup", Bson::Document(lookup)) => doc! {name: self.lookup(lookup, depth)?},
                    ("$graphLookup", Bson::Document(lookup)) => doc! {name: self.graph_lookup(lookup, depth)?},
                    ("$facet", Bson::Document(facets)) => doc! {name: self.facets(facets, depth)?},
                    _ => stage.clone(),
                })
            })
            .collect()
    }

    fn facets(&self, facets: &Document, depth: usize) -> Result<Document, Error> {
        let expanded = facets.iter().map(|(field, pipeline)| match sub_pipeline(pipeline) {
            Some(stages) => Ok((field.clone(), Bson::from(self.stages(&stages, depth)?))),
            None => Ok((field.clone(), pipeline.clone())),
        });
        expanded.collect()
    }

    fn union_with(&self, union: &Document, depth: usize) -> Result<Document, Error> {
        self.with_base(union, "coll", depth)
    }

    /// A stage that reads what is named under `key` and runs a pipeline on it.
    fn with_base(&self, stage: &Document, key: &str, depth: usize) -> Result<Document, Error> {
        let own = match stage.get("pipeline") {
            None => Vec::new(),
            Some(pipeline) => match sub_pipeline(pipeline) {
                Some(stages) => self.stages(&stages, depth)?,
                None => return Ok(stage.clone()),
            },
        };
        let mut expanded = stage.clone();
        let mut stages = Vec::new();
        if let Ok(name) = stage.get_str(key)
            && self.views.contains_key(name)
        {
            let (base, first) = self.base_of(name, depth)?;
            expanded.insert(key, base);
            stages = first;
        } else if !stage.contains_key("pipeline") {
            return Ok(expanded);
        }
        stages.extend(own);
        expanded.insert("pipeline", stages);
        Ok(expanded)
    }

    fn lookup(&self, lookup: &Document, depth: usize) -> Result<Document, Error> {
        if let Ok(from) = lookup.get_str("from")
            && lookup.contains_key("localField")
            && !self.only_filters(from, depth)?
        {
            return Err(unsupported(
                "$lookup with localField into a view",
                "the view's pipeline would have to run before the field is compared",
            ));
        }
        self.with_base(lookup, "from", depth)
    }

    fn graph_lookup(&self, lookup: &Document, depth: usize) -> Result<Document, Error> {
        let Ok(from) = lookup.get_str("from") else { return Ok(lookup.clone()) };
        if !self.views.contains_key(from) {
            return Ok(lookup.clone());
        }
        if !self.only_filters(from, depth)? {
            return Err(unsupported(
                "$graphLookup into a view",
                "the view's pipeline would have to run before the search",
            ));
        }
        let (base, stages) = self.base_of(from, depth)?;
        let mut filters: Vec<Bson> = stages.iter().filter_map(|stage| stage.get("$match").cloned()).collect();
        filters.extend(lookup.get("restrictSearchWithMatch").cloned());
        let mut expanded = lookup.clone();
        expanded.insert("from", base);
        if !filters.is_empty() {
            expanded.insert("restrictSearchWithMatch", doc! {"$and": filters});
        }
        Ok(expanded)
    }

    /// No view, or one that shows some documents as they are.
    fn only_filters(&self, name: &str, depth: usize) -> Result<bool, Error> {
        let (_, stages) = self.base_of(name, depth)?;
        Ok(stages.iter().all(|stage| stage.contains_key("$match")))
    }
}
