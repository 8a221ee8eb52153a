//! Reading a command as far as that needs no server: for fuzzers and tests, which read what nobody would send.

use bson::Document;

use super::{
    aggregate::Pipeline, call::First, count::Count, delete::Deletes, distinct::Distinct, end_transaction, explain,
    fail_point, find::Find, find_and_modify::FindAndModify, generic::Generic, get_more::GetMore, indexes::parse_models,
    insert::Inserts, kill_cursors, sessions, update::Updates,
};
use crate::{
    failure::{Answer, Failure},
    fields::Fields,
    request::{Request, Whole},
    session::info::Mode,
};

/// Reads a command: the fields of its session, those that every command may carry, and its own. Commands whose own fields are
/// the server's are not looked into.
///
/// # Errors
/// The reply that tells what is wrong with it.
pub fn read(request: &Request) -> Result<(), Document> {
    let body = request.to_document().map_err(|error| Failure::from(error).to_document())?;
    read_body(request.name(), body).map_err(|failure| failure.to_document())
}

fn read_body(name: &str, mut body: Document) -> Answer<()> {
    let mode = Mode::take(&mut body)?;
    let generic = Generic::take(&mut body)?;
    match mode {
        Mode::Transaction { begins, .. } => generic.check_statement(begins)?,
        Mode::Plain(_) | Mode::Write(..) => generic.read.check_plain(name)?,
    }
    read_own(name, body)
}

fn read_own(name: &str, mut body: Document) -> Answer<()> {
    match name {
        "getMore" => return GetMore::parse(Fields::new(name, body)).map(drop),
        "configureFailPoint" => return fail_point::check(Fields::new(name, body)),
        "refreshSessions" | "endSessions" | "killSessions" => return sessions::named(name, body).map(drop),
        "killAllSessionsByPattern" => return sessions::patterns(name, body).map(drop),
        "explain" => {
            let (name, inner, _) = explain::parse(body)?;
            // Once: an explained command may not be another `explain`.
            return if name == "explain" { Ok(()) } else { read_own(&name, inner) };
        }
        _ => {}
    }
    body.remove(name);
    let mut fields = Fields::new(name, body);
    match name {
        "find" => Find::parse(fields).map(drop),
        "killCursors" => kill_cursors::parse(fields).map(drop),
        "insert" => Inserts::parse(fields).map(drop),
        "update" => Updates::parse(fields).map(drop),
        "delete" => Deletes::parse(fields).map(drop),
        "findAndModify" | "findandmodify" => FindAndModify::parse(fields).map(drop),
        "aggregate" => Pipeline::parse(fields, true).map(drop),
        "count" => Count::parse(fields).map(drop),
        "distinct" => Distinct::parse(fields).map(drop),
        "createIndexes" => parse_models(fields).map(drop),
        "listCollections" | "listIndexes" => First::of_cursor(name, fields.document("cursor")?).map(drop),
        "commitTransaction" | "abortTransaction" => end_transaction::check(fields),
        _ => Ok(()),
    }
}
