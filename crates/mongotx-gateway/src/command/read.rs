//! Parsing of commands as far as that needs no server: for fuzzers, and for tests of input that no
//! driver sends.

use bson::Document;

use super::{
    explain,
    parts::{generic::Generic, read_concern::ReadLevels},
    registry::{NamedCommand, Parse},
    table::look_up,
};
use crate::{
    failure::{Answer, Failure},
    fields::Fields,
    request::{Request, WholeCommand},
    session::info::Mode,
};

/// Reads a command: the fields of its session, those that every command may carry, and its own. The
/// own fields of a command that is passed on to the server are not read.
///
/// ```
/// use bson::doc;
/// use mongotx_gateway::{Request, read};
///
/// let find = Request::of(&doc! {"find": "accounts", "filter": {"_id": 1}, "$db": "bank"})?;
/// assert_eq!(read(&find), Ok(()));
///
/// let wrong = Request::of(&doc! {"find": "accounts", "filter": 1, "$db": "bank"})?;
/// let refused = read(&wrong).expect_err("a filter is a document");
/// assert!(refused.get_str("errmsg")?.contains("filter"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The error reply, if the command is not well formed.
pub fn read(request: &Request) -> Result<(), Document> {
    let body = request.to_document().map_err(|error| Failure::from(error).to_document())?;
    read_body(request.name(), body).map_err(|failure| failure.to_document())
}

fn read_body(name: &str, mut body: Document) -> Answer<()> {
    let mode = Mode::take(&mut body)?;
    let generic = Generic::take(&mut body)?;
    let known = look_up(name);
    let taken = known.map_or(ReadLevels::Usual, |known| known.command.reads);
    match mode {
        Mode::Transaction { begins, .. } => generic.check_statement(begins)?,
        Mode::Plain(_) | Mode::Write(..) => generic.read.check_plain(name, taken)?,
    }
    read_own(known, name, body)
}

fn read_own(known: Option<NamedCommand>, name: &str, mut body: Document) -> Answer<()> {
    match known.map_or(Parse::Nothing, |known| known.command.parse) {
        Parse::Nothing => Ok(()),
        Parse::Whole(parse) => parse(name, body),
        Parse::Own(parse) => {
            body.remove(name);
            parse(Fields::new(name, body))
        }
        Parse::Another => {
            let (name, mut inner, _) = explain::parse(body)?;
            Generic::take(&mut inner)?;
            match look_up(&name) {
                // Once: an explained command may not be another `explain`.
                Some(NamedCommand { command, .. }) if matches!(command.parse, Parse::Another) => Ok(()),
                known => read_own(known, &name, inner),
            }
        }
    }
}
