//! Documents that a text index refuses. It covers safe versions only, so that the server would
//! refuse them too late: when the transaction is committed and being finished.

use bson::{Bson, Document};

use crate::error::Error;

/// Languages that the server can stem, by name and by code, and `none`. (Text indexes of version 1
/// take any.)
const LANGUAGES: [&str; 31] = [
    "none",
    "danish",
    "da",
    "dutch",
    "nl",
    "english",
    "en",
    "finnish",
    "fi",
    "french",
    "fr",
    "german",
    "de",
    "hungarian",
    "hu",
    "italian",
    "it",
    "norwegian",
    "nb",
    "portuguese",
    "pt",
    "romanian",
    "ro",
    "russian",
    "ru",
    "spanish",
    "es",
    "swedish",
    "sv",
    "turkish",
    "tr",
];
/// Deeper than any document is.
const MAX_DEPTH: usize = 200;

/// Refuses a document that this text index (as the server lists it) could not hold: for its
/// language, or for an array under one of the index's other fields.
///
/// The server demands this only of documents that the index's partial filter matches, if it has
/// one.
///
/// # Errors
/// [`Error::Invalid`], with the server's codes: 17261 for a language that is no string, 17262 for
/// one that is not supported, 201 (CannotBuildIndexKeys) for an array.
pub fn check_text_document(document: &Document, index: &Document) -> Result<(), Error> {
    let key = index.get_document("key").cloned().unwrap_or_default();
    for field in key.keys().filter(|field| !matches!(field.as_str(), "_fts" | "_ftsx")) {
        check_no_array(document, field)?;
    }
    // The first version takes what it does not know for the default language.
    if index.get_i32("textIndexVersion").is_ok_and(|version| version < 2) {
        return Ok(());
    }
    let paths: Vec<&str> =
        index.get_document("weights").iter().flat_map(|weights| weights.keys()).map(String::as_str).collect();
    let languages = Languages {
        field: index.get_str("language_override").unwrap_or("language"),
        every: paths.contains(&"$**"),
        paths,
    };
    languages.check(document, "", 0)
}

fn check_no_array(document: &Document, field: &str) -> Result<(), Error> {
    let mut at = document;
    for part in field.split('.') {
        match at.get(part) {
            Some(Bson::Document(inner)) => at = inner,
            Some(Bson::Array(_)) => {
                let message = format!("Field '{field}' of text index contains an array");
                return Err(Error::Invalid { code: 201, message });
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// The part of a text index that says which embedded documents it covers, and in which field each
/// names its language.
struct Languages<'a> {
    field: &'a str,
    paths: Vec<&'a str>,
    every: bool,
}

impl Languages<'_> {
    fn check(&self, document: &Document, path: &str, depth: usize) -> Result<(), Error> {
        self.check_language(document)?;
        for (name, value) in document {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.look_into(value, &path, false, depth)?;
        }
        Ok(())
    }

    fn look_into(&self, value: &Bson, path: &str, in_array: bool, depth: usize) -> Result<(), Error> {
        let leads = |to: &&str| to.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        let leads_on = self.every || self.paths.iter().any(leads);
        match value {
            _ if depth > MAX_DEPTH => Ok(()),
            Bson::Document(inner) if leads_on => self.check(inner, path, depth + 1),
            Bson::Array(items) if self.every || leads_on && !in_array => {
                items.iter().try_for_each(|item| self.look_into(item, path, true, depth + 1))
            }
            _ => Ok(()),
        }
    }

    fn check_language(&self, document: &Document) -> Result<(), Error> {
        match document.get(self.field) {
            None => Ok(()),
            Some(Bson::String(language)) if LANGUAGES.contains(&language.to_ascii_lowercase().as_str()) => Ok(()),
            Some(Bson::String(language)) => {
                Err(Error::Invalid { code: 17262, message: format!("language override unsupported: {language}") })
            }
            Some(_) => {
                let message = "found language override field in document with non-string type".to_owned();
                Err(Error::Invalid { code: 17261, message })
            }
        }
    }
}
