//! The changes between two versions of a document, as the events of change streams describe them.
//! They are computed from the versions, not from the update's operators.
//!
//! A description lists the paths with new values, the removed fields and the shortened arrays. It
//! does not describe the order of fields: where applying it would not give the new version to the
//! byte there is no description, and the event is a replacement.

use bson::{Bson, Document, doc};

/// An array that is shorter than it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Truncated {
    /// Dotted path of the array.
    pub field: String,
    /// Number of elements that are left.
    pub new_size: usize,
}

/// The changes between two versions of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// New values by their dotted paths.
    pub updated: Document,
    /// Dotted paths of fields that are gone.
    pub removed: Vec<String>,
    /// Arrays that have lost their last elements.
    pub truncated: Vec<Truncated>,
}

impl Difference {
    /// The changes as `updateDescription` of an event.
    pub fn to_document(&self) -> Document {
        let truncated: Vec<Document> = self
            .truncated
            .iter()
            .map(|array| doc! {"field": &array.field, "newSize": i32::try_from(array.new_size).unwrap_or(i32::MAX)})
            .collect();
        doc! {"updatedFields": self.updated.clone(), "removedFields": &self.removed, "truncatedArrays": truncated}
    }

    /// Reads a description of changes, in the form that [`Difference::to_document`] writes. `None`:
    /// the document has another form.
    pub fn from_document(description: &Document) -> Option<Self> {
        let updated = description.get_document("updatedFields").ok()?.clone();
        let removed = description.get_array("removedFields").ok()?.iter();
        let removed = removed.map(|field| field.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let truncated = description.get_array("truncatedArrays").ok()?.iter().map(|array| {
            let array = array.as_document()?;
            let new_size = usize::try_from(array.get_i32("newSize").ok()?).ok()?;
            Some(Truncated { field: array.get_str("field").ok()?.to_owned(), new_size })
        });
        Some(Self { updated, removed, truncated: truncated.collect::<Option<_>>()? })
    }

    fn is_empty(&self) -> bool {
        self.updated.is_empty() && self.removed.is_empty() && self.truncated.is_empty()
    }

    fn extend(&mut self, other: Self) {
        self.updated.extend(other.updated);
        self.removed.extend(other.removed);
        self.truncated.extend(other.truncated);
    }

    fn bytes(&self) -> usize {
        self.to_document().to_vec().map_or(usize::MAX, |bytes| bytes.len())
    }

    /// Makes the new version of the old one. `None`: it does not fit the document.
    pub fn apply(&self, before: &Document) -> Option<Document> {
        let mut document = Bson::Document(before.clone());
        for array in &self.truncated {
            match place(&mut document, &array.field)? {
                Bson::Array(elements) => elements.truncate(array.new_size),
                _ => return None,
            }
        }
        for path in &self.removed {
            let (parent, field) = parent(&mut document, path)?;
            parent.as_document_mut()?.remove(field)?;
        }
        for (path, value) in &self.updated {
            let (parent, field) = parent(&mut document, path)?;
            match parent {
                Bson::Document(fields) => drop(fields.insert(field, value.clone())),
                Bson::Array(elements) => match field.parse::<usize>().ok()? {
                    at if at < elements.len() => elements[at] = value.clone(),
                    at if at == elements.len() => elements.push(value.clone()),
                    _ => return None,
                },
                _ => return None,
            }
        }
        match document {
            Bson::Document(document) => Some(document),
            _ => None,
        }
    }
}

/// The difference between two versions of one document. `None`: it cannot be described, because
/// fields have another order, or a name that is no part of a path.
///
/// ```
/// use bson::doc;
/// use sd2v::difference::difference;
///
/// let (before, after) = (doc! {"_id": 1, "balance": 10, "late": true}, doc! {"_id": 1, "balance": 15});
/// let changes = difference(&before, &after).expect("the fields have the same order");
/// assert_eq!((&changes.updated, changes.removed.as_slice()), (&doc! {"balance": 15}, &["late".to_owned()][..]));
/// assert_eq!(changes.apply(&before), Some(after));
/// ```
pub fn difference(before: &Document, after: &Document) -> Option<Difference> {
    let found = of_documents("", before, after)?;
    let result = found.apply(before)?;
    is_same(&Bson::Document(result), &Bson::Document(after.clone())).then_some(found)
}

/// Returns true if the two values are the same to the byte: numbers of other types are other
/// values, and so are documents whose fields have another order.
pub fn is_same(one: &Bson, other: &Bson) -> bool {
    let bytes = |value: &Bson| doc! {"": value.clone()}.to_vec();
    matches!((bytes(one), bytes(other)), (Ok(one), Ok(other)) if one == other)
}

/// `path`: of the documents; empty at the top, else with a dot at its end.
fn of_documents(path: &str, before: &Document, after: &Document) -> Option<Difference> {
    let mut all = Difference::default();
    for field in before.keys().filter(|field| !after.contains_key(field)) {
        all.removed.push(named(path, field)?);
    }
    for (field, value) in after {
        match before.get(field) {
            Some(old) if is_same(old, value) => {}
            Some(old) => all.extend(of_values(&named(path, field)?, old, value)),
            None => drop(all.updated.insert(named(path, field)?, value.clone())),
        }
    }
    Some(all)
}

fn named(path: &str, field: &str) -> Option<String> {
    let is_plain = !field.is_empty() && !field.contains('.') && !field.starts_with('$');
    is_plain.then(|| format!("{path}{field}"))
}

/// The changes within a value; or the whole new value if that is not longer, or if paths cannot
/// describe the changes.
fn of_values(path: &str, before: &Bson, after: &Bson) -> Difference {
    let inside = format!("{path}.");
    let within = match (before, after) {
        (Bson::Document(before), Bson::Document(after)) => of_documents(&inside, before, after),
        (Bson::Array(before), Bson::Array(after)) => Some(of_arrays(path, before, after)),
        _ => None,
    };
    let whole = Difference { updated: doc! {path: after.clone()}, ..Difference::default() };
    match within {
        Some(within) if !within.is_empty() && within.bytes() < whole.bytes() => within,
        _ => whole,
    }
}

fn of_arrays(path: &str, before: &[Bson], after: &[Bson]) -> Difference {
    let mut all = Difference::default();
    for (at, value) in after.iter().enumerate() {
        let place = format!("{path}.{at}");
        match before.get(at) {
            Some(old) if is_same(old, value) => {}
            Some(old) => all.extend(of_values(&place, old, value)),
            None => drop(all.updated.insert(place, value.clone())),
        }
    }
    if after.len() < before.len() {
        all.truncated.push(Truncated { field: path.to_owned(), new_size: after.len() });
    }
    all
}

/// The value at a path.
fn place<'d>(document: &'d mut Bson, path: &str) -> Option<&'d mut Bson> {
    path.split('.').try_fold(document, |value, part| match value {
        Bson::Document(fields) => fields.get_mut(part),
        Bson::Array(elements) => elements.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The value that contains the last part of a path, and that part.
fn parent<'d, 'p>(document: &'d mut Bson, path: &'p str) -> Option<(&'d mut Bson, &'p str)> {
    match path.rsplit_once('.') {
        Some((parent, field)) => Some((place(document, parent)?, field)),
        None => Some((document, path)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn described(before: Document, after: Document) -> Document {
        let found = difference(&before, &after).unwrap();
        assert_eq!(Difference::from_document(&found.to_document()).unwrap(), found);
        found.to_document()
    }

    #[test]
    fn fields_at_any_depth() {
        let before = doc! {"_id": 1, "a": 1, "b": {"c": 1, "d": "a longer text that need not be said again"}, "e": 1};
        let after = doc! {"_id": 1, "a": 2, "b": {"c": 2, "d": "a longer text that need not be said again"}, "f": 1};
        let expected = doc! {
            "updatedFields": {"a": 2, "b.c": 2, "f": 1}, "removedFields": ["e"], "truncatedArrays": [],
        };
        assert_eq!(described(before, after), expected);
    }

    #[test]
    fn elements_of_arrays() {
        let long = "a text that is long enough to be left out".to_owned();
        let before = doc! {"a": [&long, 1, &long, {"b": &long, "c": 1}, 7, 8]};
        let after = doc! {"a": [&long, 2, &long, {"b": &long, "c": 2}]};
        let expected = doc! {
            "updatedFields": {"a.1": 2, "a.3.c": 2}, "removedFields": [],
            "truncatedArrays": [{"field": "a", "newSize": 4}],
        };
        assert_eq!(described(before, after), expected);
        let longer = described(doc! {"a": [&long, &long, 1]}, doc! {"a": [&long, &long, 1, 2]});
        assert_eq!(longer.get_document("updatedFields").unwrap(), &doc! {"a.3": 2});
    }

    #[test]
    fn a_value_that_is_another_as_a_whole_is_replaced_as_a_whole() {
        let other = doc! {"a": [7, 8, 9, 10, 11, 12], "b": 1_i64};
        let found = described(doc! {"a": [1, 2, 3, 4, 5, 6], "b": 1}, other.clone());
        assert_eq!(found.get_document("updatedFields").unwrap(), &other);
    }

    #[test]
    fn names_that_are_no_part_of_a_path_are_not_named() {
        let found = described(doc! {"a": {"b.c": 1}}, doc! {"a": {"b.c": 2}});
        assert_eq!(found.get_document("updatedFields").unwrap(), &doc! {"a": {"b.c": 2}});
        assert_eq!(difference(&doc! {"b.c": 1}, &doc! {"b.c": 2}), None);
        assert_eq!(difference(&doc! {"": 1}, &doc! {}), None);
    }

    #[test]
    fn another_order_cannot_be_described() {
        assert_eq!(difference(&doc! {"a": 1, "b": 1}, &doc! {"b": 1, "a": 1}), None);
        let inside = described(doc! {"x": {"a": 1, "b": 1}}, doc! {"x": {"b": 1, "a": 1}});
        assert_eq!(inside.get_document("updatedFields").unwrap().len(), 1);
    }

    #[test]
    fn what_does_not_fit_is_not_applied() {
        let of = |updated: Document| Difference { updated, ..Difference::default() }.apply(&doc! {"a": [1], "b": 1});
        assert_eq!(of(doc! {"a.2": 1}), None);
        assert_eq!(of(doc! {"a.x": 1}), None);
        assert_eq!(of(doc! {"b.c": 1}), None);
        assert_eq!(of(doc! {"c.d": 1}), None);
    }
}
