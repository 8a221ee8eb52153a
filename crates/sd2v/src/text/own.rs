//! The stages of a text search in a transaction's own view.

use bson::{Document, doc};

use crate::{
    error::Error,
    expression::path,
    filter::{Parts, easily_asked, guard_filter, rewrite_filter},
    names::{INSERT, REMOVE, RESERVED, UNSAFE, WRITER},
    visible::Visible,
};

/// Prefix of the names of scratch collections, followed by the client id and a number.
pub const SCRATCH: &str = "_mongotx_text.";

/// The collection's text index among its indexes, as the server lists them.
pub fn find_text_index(indexes: &[Document]) -> Option<&Document> {
    indexes.iter().find(|index| index.contains_key("textIndexVersion"))
}

/// Returns true if the index covers every field, those that MongoTx stores among them.
pub fn is_on_every_field(index: &Document) -> bool {
    index.get_document("weights").is_ok_and(|weights| weights.contains_key("$**"))
}

/// The same index for a collection that holds nothing but unsafe versions.
pub fn scratch_index(index: &Document) -> Document {
    let kept = index.iter().filter(|(option, _)| !matches!(option.as_str(), "ns" | "hidden" | "background"));
    kept.map(|(option, value)| (option.clone(), value.clone())).collect()
}

/// The pipeline that copies the `own` unsafe versions that could match to the collection `scratch`.
///
/// # Errors
/// As [`rewrite_filter`].
pub fn copy_own(parts: &Parts, own: &Visible, scratch: &str) -> Result<Vec<Document>, Error> {
    let mut filter = vec![doc! { WRITER: own.holds(), REMOVE: { "$exists": false } }];
    let asked = easily_asked(&parts.rest);
    if !asked.is_empty() {
        filter.push(rewrite_filter(&asked)?);
    }
    Ok(vec![
        doc! { "$match": { "$and": filter } },
        doc! { "$replaceWith": { "$mergeObjects": [{ "_id": "$_id" }, format!("${UNSAFE}")] } },
        doc! { "$merge": { "into": scratch } },
    ])
}

/// The stages that find the safe versions, and, if there are own writes, those that are not of this
/// transaction and what is in its scratch collection: as the application wrote them, but for the
/// score, which stands in a reserved field. Behind them: [`super::sort_by_score`],
/// [`super::project_score`],
/// [`super::hide_score`].
///
/// # Errors
/// [`Error::Unsupported`] for `$text` within `$or`, whose other conditions need indexes.
pub fn own_view(parts: &Parts, own: Option<(&Visible, &str)>) -> Result<Vec<Document>, Error> {
    let text = match &parts.text {
        Some(text) if !parts.buried_text => doc! { "$text": text.clone() },
        _ => {
            let context = "within $or in a transaction that has written to the collection";
            return Err(path::unsupported("$text", context, "its other conditions need indexes"));
        }
    };
    let mut not_mine = doc! { INSERT: { "$exists": false } };
    if let Some((own, _)) = own {
        not_mine.insert(WRITER, own.holds_not());
    }
    let mut safe = vec![text.clone(), not_mine];
    let asked = easily_asked(&parts.rest);
    if !asked.is_empty() {
        safe.push(guard_filter(&asked));
    }
    let with_score = doc! { "$set": { UNSAFE: { "$meta": "textScore" } } };
    let mut stages = vec![doc! { "$match": { "$and": safe } }, doc! { "$unset": RESERVED.to_vec() }];
    let mut others = vec![doc! { "$match": text }];
    if !parts.rest.is_empty() {
        stages.push(doc! { "$match": parts.rest.clone() });
        others.push(doc! { "$match": parts.rest.clone() });
    }
    stages.push(with_score.clone());
    others.push(with_score);
    if let Some((_, scratch)) = own {
        stages.push(doc! { "$unionWith": { "coll": scratch, "pipeline": others } });
    }
    Ok(stages)
}
