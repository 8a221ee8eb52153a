//! `find`'s own `$slice`: a count, or a skip and a count. With any other argument it is the
//! aggregation operator.

use bson::{Bson, Document, doc};

/// The numbers of a `$slice`, as `find` reads them.
pub(super) struct Slice {
    skip: Option<Bson>,
    count: Bson,
}

/// The slice in `{$slice: n}` or `{$slice: [skip, n]}`; `None` for anything else, the aggregation
/// operator included, which is also what the server takes a pair with a count below one for.
pub(super) fn find_slice(fields: &Document) -> Option<Slice> {
    let argument = fields.get("$slice").filter(|_| fields.len() == 1)?;
    let Bson::Array(pair) = argument else {
        return Some(Slice { skip: None, count: number(argument)? });
    };
    let [skip, count] = pair.as_slice() else { return None };
    let (skip, count) = (number(skip)?, number(count)?);
    let empty = matches!(count, Bson::Int32(count) if count < 1);
    (!empty).then_some(Slice { skip: Some(skip), count })
}

/// `find` cuts a number to 32 bits and drops its fraction; the aggregation operator refuses such
/// numbers.
fn number(value: &Bson) -> Option<Bson> {
    let number = match value {
        Bson::Int64(value) => Bson::Int32((*value).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32),
        Bson::Double(value) => Bson::Int32(*value as i32),
        Bson::Int32(_) | Bson::Decimal128(_) => value.clone(),
        _ => return None,
    };
    Some(number)
}

impl Slice {
    /// The sliced field; what is no array stays as it is.
    pub(super) fn expression(&self, field: &str) -> Bson {
        let path = format!("${field}");
        let mut arguments = vec![Bson::String(path.clone())];
        arguments.extend(self.skip.clone());
        arguments.push(self.count.clone());
        doc! { "$cond": [{ "$isArray": path.as_str() }, { "$slice": arguments }, path.as_str()] }.into()
    }
}
