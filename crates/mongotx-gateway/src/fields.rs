//! Reading a command's fields, with the server's errors for those of a wrong type, missing ones and
//! unknown ones.

use bson::{Bson, Document, spec::ElementType};

use crate::failure::{Answer, Failure, codes};

/// The server's name for a value's type.
pub(crate) fn type_name(value: &Bson) -> &'static str {
    match value.element_type() {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => "binData",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::DbPointer => "dbPointer",
        ElementType::JavaScriptCode => "javascript",
        ElementType::Symbol => "symbol",
        ElementType::JavaScriptCodeWithScope => "javascriptWithScope",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        ElementType::MaxKey => "maxKey",
        ElementType::MinKey => "minKey",
    }
}

/// A number of any type, its fraction cut off.
pub(crate) fn as_number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        Bson::Double(n) => Some(*n as i64),
        Bson::Decimal128(n) => n.to_string().parse::<f64>().ok().map(|n| n as i64),
        _ => None,
    }
}

/// Returns true if a flag is there, and true: a boolean, or a number that stands for one.
pub(crate) fn is_asked(flag: Option<&Bson>) -> bool {
    match flag {
        Some(Bson::Boolean(flag)) => *flag,
        Some(other) => as_number(other).is_some_and(|number| number != 0),
        None => false,
    }
}

/// The fields that are left of a command, or of a part of one. `null` is as if it was not there.
pub(crate) struct Fields {
    name: String,
    rest: Document,
}

impl Fields {
    /// The fields of a command, or of a part of it; errors call it by this name.
    pub(crate) fn new(name: &str, fields: Document) -> Self {
        Self { name: name.to_owned(), rest: fields }
    }

    fn wrong(&self, field: &str, value: &Bson, wanted: &str) -> Failure {
        let (name, found) = (&self.name, type_name(value));
        let message = format!("BSON field '{name}.{field}' is the wrong type '{found}', expected {wanted}");
        Failure::new(codes::TYPE_MISMATCH, message)
    }

    /// A field's value of any type; null counts as missing.
    pub(crate) fn any(&mut self, field: &str) -> Option<Bson> {
        self.rest.remove(field).filter(|value| *value != Bson::Null)
    }

    /// A field's value that must be a document.
    pub(crate) fn document(&mut self, field: &str) -> Answer<Option<Document>> {
        match self.any(field) {
            None => Ok(None),
            Some(Bson::Document(document)) => Ok(Some(document)),
            Some(other) => Err(self.wrong(field, &other, "type 'object'")),
        }
    }

    /// A document; an empty one is as if it was not there.
    pub(crate) fn filled(&mut self, field: &str) -> Answer<Option<Document>> {
        Ok(self.document(field)?.filter(|document| !document.is_empty()))
    }

    /// A field's value that must be a boolean.
    pub(crate) fn flag(&mut self, field: &str) -> Answer<Option<bool>> {
        match self.any(field) {
            None => Ok(None),
            Some(Bson::Boolean(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(field, &other, "type 'bool'")),
        }
    }

    /// A boolean, or a number that stands for one.
    pub(crate) fn safe_flag(&mut self, field: &str) -> Answer<Option<bool>> {
        match self.any(field) {
            None => Ok(None),
            Some(Bson::Boolean(flag)) => Ok(Some(flag)),
            Some(other) => match as_number(&other) {
                Some(number) => Ok(Some(number != 0)),
                None => Err(self.wrong(field, &other, "types '[bool, long, int, decimal, double']")),
            },
        }
    }

    /// A field's value that must be a number.
    pub(crate) fn number(&mut self, field: &str) -> Answer<Option<i64>> {
        let Some(value) = self.any(field) else { return Ok(None) };
        match as_number(&value) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(field, &value, "types '[long, int, decimal, double']")),
        }
    }

    /// A number of any type, with its fraction.
    pub(crate) fn exact_number(&mut self, field: &str) -> Answer<Option<f64>> {
        let Some(value) = self.any(field) else { return Ok(None) };
        let number = match &value {
            Bson::Double(number) => Some(*number),
            Bson::Decimal128(number) => number.to_string().parse().ok(),
            other => as_number(other).map(|number| number as f64),
        };
        number.map(Some).ok_or_else(|| self.wrong(field, &value, "types '[long, int, decimal, double']"))
    }

    /// A number that is not negative.
    pub(crate) fn natural(&mut self, field: &str) -> Answer<Option<u64>> {
        let Some(number) = self.number(field)? else { return Ok(None) };
        u64::try_from(number).map(Some).map_err(|_| {
            let message = format!("BSON field '{field}' value must be >= 0, actual value '{number}'");
            Failure::new(codes::OUT_OF_RANGE, message)
        })
    }

    /// A field's value that must be a string.
    pub(crate) fn text(&mut self, field: &str) -> Answer<Option<String>> {
        match self.any(field) {
            None => Ok(None),
            Some(Bson::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(field, &other, "type 'string'")),
        }
    }

    /// An array of any values.
    pub(crate) fn array(&mut self, field: &str) -> Answer<Option<Vec<Bson>>> {
        match self.any(field) {
            None => Ok(None),
            Some(Bson::Array(array)) => Ok(Some(array)),
            Some(other) => Err(self.wrong(field, &other, "type 'array'")),
        }
    }

    /// A field's value that must be an array of documents.
    pub(crate) fn documents(&mut self, field: &str) -> Answer<Option<Vec<Document>>> {
        let Some(array) = self.array(field)? else { return Ok(None) };
        let document = |(n, value)| match value {
            Bson::Document(document) => Ok(document),
            other => Err(self.wrong(&format!("{field}.{n}"), &other, "type 'object'")),
        };
        array.into_iter().enumerate().map(document).collect::<Answer<_>>().map(Some)
    }

    /// The index to use: a name or a key pattern; an empty pattern is none.
    pub(crate) fn hint(&mut self) -> Answer<Option<Bson>> {
        match self.any("hint") {
            None => Ok(None),
            Some(Bson::Document(pattern)) if pattern.is_empty() => Ok(None),
            Some(hint @ (Bson::Document(_) | Bson::String(_))) => Ok(Some(hint)),
            Some(_) => Err(Failure::new(codes::FAILED_TO_PARSE, "Hint must be a string or an object")),
        }
    }

    /// The value of a field that must be there.
    pub(crate) fn required<T>(&self, field: &str, value: Option<T>) -> Answer<T> {
        value.ok_or_else(|| {
            let message = format!("BSON field '{}.{field}' is missing but a required field", self.name);
            Failure::new(codes::MISSING_FIELD, message)
        })
    }

    /// Fields that need no heed here.
    pub(crate) fn ignore(&mut self, fields: &[&str]) {
        for field in fields {
            self.rest.remove(*field);
        }
    }

    /// Options that the gateway cannot honour; `false`, 0 and absent ones are none.
    pub(crate) fn refuse(&mut self, fields: &[&str], why: &str) -> Answer<()> {
        for field in fields {
            let asked = match self.any(field) {
                None | Some(Bson::Boolean(false)) => false,
                Some(Bson::Document(document)) => !document.is_empty(),
                Some(other) => as_number(&other) != Some(0),
            };
            if asked {
                let message = format!("the option '{field}' of {} is not supported: {why}", self.name);
                return Err(Failure::new(codes::COMMAND_NOT_SUPPORTED, message));
            }
        }
        Ok(())
    }

    /// Refuses the fields that were not taken, as unknown.
    pub(crate) fn finish(self) -> Answer<()> {
        match self.rest.keys().next() {
            None => Ok(()),
            Some(field) => {
                let message = format!("BSON field '{}.{field}' is an unknown field.", self.name);
                Err(Failure::new(codes::UNKNOWN_FIELD, message))
            }
        }
    }

    /// The fields that were not taken.
    pub(crate) fn into_rest(self) -> Document {
        self.rest
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    fn fields(document: Document) -> Fields {
        Fields::new("find", document)
    }

    #[test]
    fn wrong_types_are_refused_as_by_the_server() {
        let message = |failure: Failure| (failure.code, failure.message);
        let refused = fields(doc! {"limit": "x"}).number("limit").unwrap_err();
        let words = "BSON field 'find.limit' is the wrong type 'string', expected types '[long, int, decimal, double']";
        assert_eq!(message(refused), (14, words.to_owned()));
        let refused = fields(doc! {"skip": -1}).natural("skip").unwrap_err();
        assert_eq!(message(refused), (51_024, "BSON field 'skip' value must be >= 0, actual value '-1'".to_owned()));
        let refused = fields(doc! {"documents": [5]}).documents("documents").unwrap_err();
        let words = "BSON field 'find.documents.0' is the wrong type 'int', expected type 'object'";
        assert_eq!(message(refused), (14, words.to_owned()));
        assert_eq!(fields(doc! {"x": 1}).finish().unwrap_err().code, 40_415);
        assert_eq!(fields(doc! {}).required("x", None::<i32>).unwrap_err().code, 40_414);
        assert_eq!(fields(doc! {"hint": 5}).hint().unwrap_err().code, 9);
    }

    #[test]
    fn null_is_as_if_it_was_not_there() {
        let mut fields = fields(doc! {"limit": null, "sort": null, "flag": null});
        assert_eq!(fields.number("limit").unwrap(), None);
        assert_eq!(fields.document("sort").unwrap(), None);
        assert_eq!(fields.flag("flag").unwrap(), None);
        fields.finish().unwrap();
    }

    #[test]
    fn numbers_of_every_type_are_numbers() {
        let decimal: bson::Decimal128 = "2".parse().unwrap();
        for value in [Bson::Int32(2), Bson::Int64(2), Bson::Double(2.5), Bson::Decimal128(decimal)] {
            assert_eq!(as_number(&value), Some(2), "{value}");
        }
    }

    #[test]
    fn refused_options_may_be_switched_off() {
        for off in [doc! {}, doc! {"x": false}, doc! {"x": 0}, doc! {"x": null}, doc! {"x": {}}] {
            fields(off).refuse(&["x"], "why").unwrap();
        }
        for on in [doc! {"x": true}, doc! {"x": 1}, doc! {"x": "a"}, doc! {"x": {"a": 1}}] {
            assert_eq!(fields(on).refuse(&["x"], "why").unwrap_err().code, 115);
        }
    }
}
