//! The shape of a projection: it lists what it returns, or what it leaves out.

use bson::{Bson, Document};

use super::slice::find_slice;
use crate::expression::{is_operator, path};

/// The kind of a projection, by the fields that it returns besides those that it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The whole document: the projection is empty.
    Everything,
    /// The listed fields, and `_id` unless it is excluded.
    Inclusive,
    /// Shows all but the listed fields; also a projection that only slices arrays.
    Exclusive,
}

/// The shape of a projection of `find`.
///
/// Flags and computed fields decide; else `_id: 1` lists; else `$slice` leaves the rest whole; else
/// `$elemMatch` lists.
pub fn shape(projection: &Document) -> Shape {
    shape_with(projection, &find_form)
}

/// The shape of a `$project` stage, where every operator computes a field.
pub(crate) fn stage_shape(stage: &Document) -> Shape {
    shape_with(stage, &|_| Form::Lists)
}

/// Effect of one entry of a projection on the fields that no entry names.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Fields that are not named are left out.
    Lists,
    /// Fields that are not named stay.
    Excludes,
    /// Fields that are not named stay, unless another entry lists.
    Slices,
    /// Fields that are not named are left out, unless another entry excludes or slices.
    Matches,
    /// The entry has no effect on other fields.
    Adds,
}

fn find_form(operators: &Document) -> Form {
    match operators.keys().next().map(String::as_str) {
        Some("$meta") => Form::Adds,
        Some("$slice") if find_slice(operators).is_some() => Form::Slices,
        Some("$elemMatch") => Form::Matches,
        _ => Form::Lists,
    }
}

fn shape_with(projection: &Document, form_of: &dyn Fn(&Document) -> Form) -> Shape {
    if projection.is_empty() {
        return Shape::Everything;
    }
    let (mut others, mut all) = (Vec::new(), Vec::new());
    for (key, value) in projection {
        let forms = if key == "_id" { &mut all } else { &mut others };
        collect_forms(value, form_of, forms, 0);
    }
    let lists = match others.iter().find(|form| matches!(form, Form::Lists | Form::Excludes)) {
        Some(form) => *form == Form::Lists,
        None => {
            all.extend(others);
            all.contains(&Form::Lists) || !all.contains(&Form::Slices) && all.contains(&Form::Matches)
        }
    };
    if lists { Shape::Inclusive } else { Shape::Exclusive }
}

/// The forms in an entry's value, those of a nested document too, down to the bound on nesting.
fn collect_forms(value: &Bson, form_of: &dyn Fn(&Document) -> Form, forms: &mut Vec<Form>, depth: usize) {
    let Ok(depth) = path::deeper(depth) else { return };
    match value {
        Bson::Document(fields) if !fields.keys().next().is_some_and(|key| is_operator(key)) => {
            fields.values().for_each(|value| collect_forms(value, form_of, forms, depth));
        }
        Bson::Document(operators) => forms.push(form_of(operators)),
        value if path::is_number_or_bool(value) && !is_truthy(value) => forms.push(Form::Excludes),
        _ => forms.push(Form::Lists),
    }
}

/// A flag as the server reads it: zero and `false` exclude.
fn is_truthy(value: &Bson) -> bool {
    match value {
        Bson::Boolean(flag) => *flag,
        Bson::Int32(flag) => *flag != 0,
        Bson::Int64(flag) => *flag != 0,
        Bson::Double(flag) => *flag != 0.0,
        Bson::Decimal128(flag) => !is_decimal_zero(flag.bytes()),
        _ => true,
    }
}

/// Zero in the binary encoding: a coefficient of zero, whatever the sign and the exponent.
fn is_decimal_zero(bytes: [u8; 16]) -> bool {
    let special = bytes[15] & 0x60 == 0x60;
    let low = bytes[..14].iter().all(|byte| *byte == 0);
    !special && low && bytes[14] & 1 == 0
}
