//! Conditions of a pipeline that hold of a document only if a field is exactly what it was read to
//! be.

use bson::{Bson, doc};

use crate::expression::{literal, path::is_plain_field};

/// The conditions under which this field of the top level has this value, of this type; or is not
/// there, if there is no value. `None`: an expression does not tell such a value from all others,
/// or the name is not that of a field of the top level.
///
/// Numbers and texts are compared together with their types: an expression takes `1` and `1.0` for
/// the same, and a text and a symbol.
pub fn exact_conditions(field: &str, value: Option<&Bson>) -> Option<Vec<Bson>> {
    if field != "_id" && !is_plain_field(field) {
        return None;
    }
    let path = format!("${field}");
    let is_of_type = |name: &str| Bson::from(doc! {"$eq": [{"$type": &path}, name]});
    let Some(value) = value else { return Some(vec![is_of_type("missing")]) };
    let is_equal = doc! {"$eq": [&path, literal(value)]}.into();
    Some(match value {
        Bson::Boolean(_) | Bson::ObjectId(_) | Bson::DateTime(_) => vec![is_equal],
        Bson::String(_) => vec![is_equal, is_of_type("string")],
        Bson::Int32(_) => vec![is_equal, is_of_type("int")],
        Bson::Int64(_) => vec![is_equal, is_of_type("long")],
        // The two zeros are equal, and so are all that are no number.
        Bson::Double(number) if *number != 0.0 && !number.is_nan() => vec![is_equal, is_of_type("double")],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
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
            assert_eq!(exact_conditions("a", Some(&value)), None, "{value}");
        }
        for name in ["a.b", "$a", ""] {
            assert_eq!(exact_conditions(name, Some(&1.into())), None, "{name}");
        }
    }

    #[test]
    fn values_are_compared_with_their_types_and_absence_is_a_condition() {
        let typed = [(Bson::from(1), "int"), (1_i64.into(), "long"), (1.5.into(), "double"), ("$b".into(), "string")];
        for (value, name) in typed {
            let wanted =
                vec![Bson::from(doc! {"$eq": ["$a", literal(&value)]}), doc! {"$eq": [{"$type": "$a"}, name]}.into()];
            assert_eq!(exact_conditions("a", Some(&value)), Some(wanted));
        }
        assert_eq!(
            exact_conditions("a", Some(&true.into())).unwrap(),
            [doc! {"$eq": ["$a", {"$literal": true}]}.into()]
        );
        assert_eq!(exact_conditions("a", None).unwrap(), [doc! {"$eq": [{"$type": "$a"}, "missing"]}.into()]);
    }
}
