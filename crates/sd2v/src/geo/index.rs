//! The field of a `$geoNear` stage without `key`: that of the collection's only geospatial index.

use bson::Document;

use crate::{error::Error, expression::path, names::RESERVED};

/// Number of MongoDB's error code `IndexNotFound`.
const NOT_FOUND: i32 = 27;

/// The field of the only 2d index, else of the only 2dsphere index, among these definitions (as
/// `listIndexes` gives them). Indexes on reserved fields are not the application's and do not
/// count.
///
/// # Errors
/// [`Error::Invalid`] (27, IndexNotFound) when there is none, or more than one of the kind.
pub fn only_geo_field(indexes: &[Document]) -> Result<String, Error> {
    for kind in ["2d", "2dsphere"] {
        let fields: Vec<&str> = indexes.iter().filter_map(|index| geo_field(index, kind)).collect();
        match fields.as_slice() {
            [] => {}
            [field] => return Ok((*field).to_owned()),
            _ => {
                return Err(not_found(format!(
                    "there is more than one {kind} index; unsure which to use for $geoNear"
                )));
            }
        }
    }
    Err(not_found("$geoNear requires a 2d or 2dsphere index, but none were found".to_owned()))
}

fn geo_field<'a>(index: &'a Document, kind: &str) -> Option<&'a str> {
    let key = index.get_document("key").ok()?;
    let (field, _) = key.iter().find(|(_, value)| value.as_str() == Some(kind))?;
    (!RESERVED.contains(&path::head(field))).then_some(field)
}

fn not_found(message: String) -> Error {
    Error::Invalid { code: NOT_FOUND, message }
}

/// Returns true if one of the indexes can answer a query by distance on this field.
pub fn has_geo_index(indexes: &[Document], field: &str) -> bool {
    let is_geo = |index: &Document| {
        index.get_document("key").is_ok_and(|key| matches!(key.get_str(field), Ok("2d" | "2dsphere")))
    };
    indexes.iter().any(is_geo)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::names::UNSAFE;

    #[test]
    fn only_geo_field_ignores_mirrored_indexes_and_prefers_2d() {
        let (sphere, plane) = (doc! {"key": {"t": 1, "p": "2dsphere"}}, doc! {"key": {"q": "2d"}});
        let mirror = doc! {"key": {format!("{UNSAFE}.p"): "2dsphere"}};
        assert_eq!(only_geo_field(&[doc! {"key": {"_id": 1}}, sphere.clone(), mirror.clone()]), Ok("p".to_owned()));
        assert_eq!(only_geo_field(&[sphere.clone(), sphere.clone(), plane]), Ok("q".to_owned()));
        for none in [vec![mirror], vec![sphere.clone(), sphere]] {
            assert!(matches!(only_geo_field(&none), Err(Error::Invalid { code: 27, .. })));
        }
    }
}
