//! Conditions of a pipeline that hold of a document only if a field is exactly what it was read to
//! be.

use bson::{Bson, RawBson, rawdoc};

use crate::expression::{Exactly, path::is_plain_field, path_of};

/// A field of the top level, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    field: String,
    /// `None`: the field is not there.
    value: Option<Bson>,
    /// The type of the value, where an expression takes values of other types for the same.
    kind: Option<&'static str>,
}

/// The condition under which this field of the top level has this value, of this type; or is not
/// there, if there is no value. `None`: an expression cannot distinguish such a value from all
/// others, or the name is not that of a field of the top level.
///
/// Numbers and texts are compared together with their types: an expression takes `1` and `1.0` for
/// the same, and a text and a symbol.
pub fn exact(field: &str, value: Option<&Bson>) -> Option<Exact> {
    if field != "_id" && !is_plain_field(field) {
        return None;
    }
    let kind = match value {
        None | Some(Bson::Boolean(_) | Bson::ObjectId(_) | Bson::DateTime(_)) => None,
        Some(Bson::String(_)) => Some("string"),
        Some(Bson::Int32(_)) => Some("int"),
        Some(Bson::Int64(_)) => Some("long"),
        // The two zeros are equal, and so are all that are no number.
        Some(Bson::Double(number)) if *number != 0.0 && !number.is_nan() => Some("double"),
        Some(_) => return None,
    };
    Some(Exact { field: field.to_owned(), value: value.cloned(), kind })
}

impl Exact {
    /// Has it compared. `None`: the value is none that bytes can be made of.
    pub(crate) fn add_to(&self, exactly: &mut Exactly) -> Option<()> {
        let value = self.value.clone().map(RawBson::try_from).transpose().ok()?;
        exactly.and(path_of(&self.field), value);
        if let Some(kind) = self.kind {
            exactly.and(rawdoc! { "$type": path_of(&self.field) }, Some(kind));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    #[test]
    fn values_that_an_expression_confuses_with_others_have_no_conditions() {
        let confused = [
            0.0.into(),
            (-0.0).into(),
            f64::NAN.into(),
            Bson::Null,
            Bson::Undefined,
            doc! {"a": 1}.into(),
            vec![Bson::from(1)].into(),
            Bson::Symbol("a".to_owned()),
            Bson::Decimal128("1".parse().unwrap()),
        ];
        for value in confused {
            assert_eq!(exact("a", Some(&value)), None, "{value}");
        }
        for name in ["a.b", "$a", ""] {
            assert_eq!(exact(name, Some(&1.into())), None, "{name}");
        }
    }

    #[test]
    fn values_are_compared_with_their_types_and_absence_is_a_condition() {
        let compared = |value: Option<&Bson>| {
            let mut exactly = Exactly::new();
            exact("a", value).and_then(|exact| exact.add_to(&mut exactly)).expect("such values have an exact form");
            Document::try_from(exactly.into_expression()).expect("it is a document")
        };
        let typed = [(Bson::from(1), "int"), (1_i64.into(), "long"), (1.5.into(), "double"), ("$b".into(), "string")];
        for (value, name) in typed {
            let found = doc! {"f0": "$a", "f1": {"$type": "$a"}};
            assert_eq!(compared(Some(&value)), doc! {"$eq": [found, {"$literal": {"f0": value, "f1": name}}]});
        }
        assert_eq!(compared(Some(&true.into())), doc! {"$eq": [{"f0": "$a"}, {"$literal": {"f0": true}}]});
        assert_eq!(compared(None), doc! {"$eq": [{"f0": "$a"}, {"$literal": {}}]});
    }
}
