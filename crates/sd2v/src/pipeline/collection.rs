//! The stages that read one collection, and the user's behind them.

use bson::{Bson, Document, doc};

use super::{
    Mapper, Place, check,
    front::{self, Parts, Top, all_of},
    parts,
    special::{self, Opening},
    unsupported, whole,
};
use crate::{
    error::Error,
    expression::path,
    filter::{check_filter, guard_filter},
    geo::{GeoNear, hide_distance, sort_by_distance},
    index::show_statistics,
    names::{INSERT, REMOVE, RESERVED, WRITER},
    view,
    visible::Visible,
};

impl Mapper<'_> {
    /// A pipeline on a collection.
    pub(super) fn collection(
        &mut self,
        collection: &str,
        user: &[Document],
        place: Place,
        depth: usize,
    ) -> Result<Vec<Document>, Error> {
        let depth = path::deeper(depth)?;
        let own = self.sources.visible(collection);
        let opening = Opening::of(user.first());
        opening.refuse_own(own.as_ref())?;
        match opening {
            Opening::NoDocuments => self.no_documents(user, place, depth),
            Opening::Near => self.near(collection, user, place, depth),
            Opening::Documents | Opening::Text => {
                let parts = front::take_apart(user)?;
                let asked =
                    if opening == Opening::Text { special::without_text(&parts.filter) } else { parts.filter.clone() };
                self.note(collection, if place.in_lookup { Document::new() } else { asked });
                let parts = Parts { filter: self.bounded(collection, parts.filter), ..parts };
                match own {
                    Some(own) => self.own_view(collection, parts, &own, place, depth),
                    None => {
                        let filter = view::safe_filter(&parts.filter, self.sources.bare_inserts);
                        self.safe_view(filter, parts, place, depth)
                    }
                }
            }
        }
    }

    /// The filter, narrowed to what may be read.
    fn bounded(&self, collection: &str, filter: Document) -> Document {
        match self.sources.only.get(collection) {
            None => filter,
            Some(only) if filter.is_empty() => only.clone(),
            Some(only) => all_of(vec![filter, only.clone()]),
        }
    }

    fn safe_view(
        &mut self,
        filter: Document,
        parts: Parts,
        place: Place,
        depth: usize,
    ) -> Result<Vec<Document>, Error> {
        let mut mapped = vec![doc! {"$match": filter}];
        mapped.extend(parts.front);
        if whole::surfaces(&parts.rest, place.is_answer) {
            mapped.push(unset_reserved());
        }
        mapped.extend(self.stages(&parts.rest, place, depth)?);
        Ok(mapped)
    }

    fn own_view(
        &mut self,
        collection: &str,
        parts: Parts,
        own: &Visible,
        place: Place,
        depth: usize,
    ) -> Result<Vec<Document>, Error> {
        let Parts { filter, front, rest } = parts;
        let (mut mapped, done) = match front::top(&front).filter(|_| !place.by_field) {
            Some(top) => (own_top(collection, &filter, &top, own), top.stages),
            None => (visible(&filter, own), 0),
        };
        mapped.extend(front.into_iter().skip(done));
        mapped.extend(self.stages(&rest, place, depth)?);
        Ok(mapped)
    }

    fn near(
        &mut self,
        collection: &str,
        user: &[Document],
        place: Place,
        depth: usize,
    ) -> Result<Vec<Document>, Error> {
        let Some((Bson::Document(near), rest)) =
            user.split_first().and_then(|(first, rest)| Some((first.get("$geoNear")?, rest)))
        else {
            return Err(Error::Invalid { code: 10065, message: "$geoNear needs a document".to_owned() });
        };
        check::check_stage("$geoNear", &Bson::Document(near.clone()))?;
        let query = near.get_document("query").cloned().unwrap_or_default();
        check_filter(&query)?;
        self.note(collection, if place.in_lookup { Document::new() } else { query.clone() });
        let mut near = near.clone();
        near.insert("query", self.bounded(collection, query));
        let mut mapped = self.near_stages(collection, near, place)?;
        // The output cannot show the locks, so they need not be removed.
        if mapped.len() == 2 && !whole::surfaces(rest, place.is_answer) {
            mapped.pop();
        }
        mapped.extend(self.stages(rest, place, depth)?);
        Ok(mapped)
    }

    fn near_stages(&mut self, collection: &str, mut near: Document, place: Place) -> Result<Vec<Document>, Error> {
        if !near.contains_key("key") {
            match self.sources.geo_fields.get(collection) {
                Some(field) => drop(near.insert("key", field)),
                // No index is known: the result names the collection, and the caller decides.
                None => drop(self.without_geo_field.insert(collection.to_owned())),
            }
        }
        let near = GeoNear::parse_geo_near(&near)?;
        match self.sources.visible(collection) {
            Some(_) if place.in_lookup => {
                Err(unsupported("$geoNear", "within $lookup of a collection that this transaction has written"))
            }
            Some(own) => {
                let mut both = near.own_view(collection, &own, None)?;
                both.extend([sort_by_distance(), hide_distance()]);
                Ok(both)
            }
            None => Ok(near.safe_view(None)),
        }
    }

    /// A pipeline that does not begin with documents of the collection runs unchanged.
    fn no_documents(&mut self, user: &[Document], place: Place, depth: usize) -> Result<Vec<Document>, Error> {
        let Some((first, rest)) = user.split_first() else { return Ok(Vec::new()) };
        let (name, _) = parts(first)?;
        if name == "$changeStream" {
            return Err(unsupported(name, "it would show what is not committed"));
        }
        let mut mapped = vec![first.clone()];
        if name == "$indexStats" {
            mapped.extend(show_statistics());
        }
        mapped.extend(self.stages(rest, place, depth)?);
        Ok(mapped)
    }
}

/// Takes the reserved fields away.
pub(super) fn unset_reserved() -> Document {
    doc! {"$unset": RESERVED.to_vec()}
}

/// The documents that match, `own` unsafe versions among them, exactly as the application wrote
/// them.
fn visible(filter: &Document, own: &Visible) -> Vec<Document> {
    let mut stages = vec![view::select(filter, own.writers())];
    stages.extend(view::map(own.writers()));
    if !filter.is_empty() {
        stages.push(doc! {"$match": filter.clone()});
    }
    stages
}

/// The first in an order: those among the safe versions, by an index, then those among the own
/// ones.
fn own_top(collection: &str, filter: &Document, top: &Top<'_>, own: &Visible) -> Vec<Document> {
    let sort = doc! {"$sort": top.sort.clone()};
    let not_mine = doc! {WRITER: own.holds_not(), INSERT: {"$exists": false}};
    let safe = if filter.is_empty() {
        not_mine
    } else {
        doc! {"$and": [guard_filter(filter), not_mine]}
    };
    let mut mine = vec![doc! {"$match": {WRITER: own.holds(), REMOVE: {"$exists": false}}}];
    mine.extend(view::map(own.writers()));
    if !filter.is_empty() {
        mine.push(doc! {"$match": filter.clone()});
    }
    let mut stages = vec![
        doc! {"$match": safe},
        sort.clone(),
        doc! {"$limit": top.skip + top.limit},
        unset_reserved(),
        doc! {"$unionWith": {"coll": collection, "pipeline": mine}},
        sort,
    ];
    if top.skip > 0 {
        stages.push(doc! {"$skip": top.skip});
    }
    stages.push(doc! {"$limit": top.limit});
    stages
}
