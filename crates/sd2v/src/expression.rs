//! Aggregation expressions: what they may name, and how they are made to mean the unsafe version.
//!
//! MongoDB reads `"$a"` as `"$$CURRENT.a"`, and lets `$let` bind `CURRENT` anew; `$getField`
//! without an input reads `$$CURRENT` too. So an expression is wrapped in one `$let` and its text
//! stays as the user wrote it, except for `$$ROOT`, which no expression can bind: each mention
//! becomes `$$ROOT._unsafe`.
//!
//! Also here, for the other rewriters: `path` (prefixing and refusing names) and the refusal of
//! whole-root reads. What is *not* here: which places of a filter, update or projection hold an
//! expression.

use bson::{
    Bson, Document, RawDocumentBuf, doc,
    raw::{BindRawBsonRef, CString},
    rawdoc,
};

use crate::{error::Error, names::UNSAFE};

mod check;
pub(crate) mod path;
mod root;

pub use check::check_expression;
pub use root::sees_whole_document;
pub(crate) use root::{hide_field_of_root, is_operator, is_quoted};

/// The expression that means on the stored document what `expr` means on its unsafe version.
///
/// Constants come back as they are. Where the stored document has no `_unsafe`, every field is
/// missing.
///
/// # Errors
/// [`Error::Reserved`] for a reserved name; [`Error::Invalid`] (15) when it nests deeper than 200
/// levels.
pub fn rewrite_expression(expr: &Bson) -> Result<Bson, Error> {
    check_expression(expr)?;
    if !can_read_fields(expr) {
        return Ok(expr.clone());
    }
    let body = root::map_strings(expr, &root_to_unsafe, 0)?;
    Ok(Bson::Document(doc! { "$let": { "vars": { "CURRENT": format!("${UNSAFE}") }, "in": body } }))
}

/// Returns true if the expression is anything but a scalar constant.
fn can_read_fields(expr: &Bson) -> bool {
    match expr {
        Bson::String(text) => text.starts_with('$'),
        Bson::Document(_) | Bson::Array(_) => true,
        _ => false,
    }
}

fn root_to_unsafe(text: &str) -> Option<Bson> {
    let rest = path::after_variable(text, "ROOT")?;
    Some(Bson::String(format!("$$ROOT.{UNSAFE}{rest}")))
}

/// The expression that is true of documents of which some expressions have these values, as the
/// server's `$eq` compares them. An object of them leaves out those that are missing, and is
/// compared as a whole: one comparison costs the server a fraction of one for each.
#[derive(Clone)]
pub(crate) struct Exactly {
    found: RawDocumentBuf,
    wanted: RawDocumentBuf,
    compared: usize,
}

impl Exactly {
    pub(crate) fn new() -> Self {
        Self { found: RawDocumentBuf::new(), wanted: RawDocumentBuf::new(), compared: 0 }
    }

    /// Compares the expression with the value as well; `None` is a field that is missing.
    pub(crate) fn and(&mut self, found: impl BindRawBsonRef, wanted: Option<impl BindRawBsonRef>) {
        let name = CString::try_from(format!("f{}", self.compared));
        let name = name.unwrap_or_else(|_| unreachable!("a letter and digits are no zero byte"));
        if let Some(wanted) = wanted {
            self.wanted.append(&name, wanted);
        }
        self.found.append(&name, found);
        self.compared += 1;
    }

    /// The field of the top level is missing.
    pub(crate) fn and_missing(&mut self, field: &str) {
        self.and(path_of(field), None::<&str>);
    }

    pub(crate) fn into_expression(self) -> RawDocumentBuf {
        rawdoc! { "$eq": [self.found, { "$literal": self.wanted }] }
    }

    /// The object of the expressions, and the one that it has to be equal to.
    pub(crate) fn into_parts(self) -> (RawDocumentBuf, RawDocumentBuf) {
        (self.found, self.wanted)
    }
}

/// The expression that is the field of the top level.
pub(crate) fn path_of(field: &str) -> String {
    format!("${field}")
}

/// An expression that is the value itself, whatever it contains.
pub(crate) fn literal(value: &Bson) -> Document {
    doc! { "$literal": value.clone() }
}
