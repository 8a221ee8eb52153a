//! The conclusion from a missing record: whether the locks of its client are orphans. No record
//! means that every document of the client was clean and its record removed since, so that what
//! still carries its id is an orphan, to be rolled back. Two other cases look the same, and rolling
//! back would then undo half of a commit of another client:
//!
//! 1. The client keeps its records in another database. Its id says so
//!    ([`protocol::id::database_tag`]), and every client that registers notes its database at a
//!    fixed place of the deployment, so that the error can name it.
//! 2. The record was removed before its time: by hand, with its database, by a backup that was put
//!    back. The id is then younger than records are kept at least. (Registering is durable, closing
//!    sets the server's clock, and the TTL index removes a record [`RETENTION_SECONDS`] later: an
//!    orphan's id is older. Both times are the server's.)
//!
//! Both are errors, and nothing is changed. The second is one until the id is old enough, so no
//! wait lasts for ever.

use protocol::{ClientId, id::database_tag, status::status_where_kept};

use super::record_databases::{databases_of, noted_databases};
use crate::{
    coordinator::{
        server::Server,
        stored::own_collections::{RETENTION_SECONDS, TXS},
    },
    error::{Error, ErrorKind, Result},
};

/// Number of MongoDB's error code `InvalidOptions`.
const WRONG_OPTIONS: i32 = 72;

/// Checks that locks of a client without a record in `database` may be rolled back.
///
/// # Errors
/// [`ErrorKind::Invalid`] when its records are elsewhere, [`ErrorKind::Corruption`] when its record
/// must be there and is not.
pub(crate) async fn check_orphaned(server: &Server, database: &str, client: ClientId) -> Result<()> {
    check_database(server, database, client).await?;
    let age = server.seconds().await? - i64::from(client.made());
    // An id from further in the future shows that a clock was set back: it says nothing about the
    // record.
    if age.abs() >= RETENTION_SECONDS {
        return Ok(());
    }
    let minutes = RETENTION_SECONDS / 60;
    Err(Error::new(
        ErrorKind::Corruption,
        format!(
            "client {client} has locked a document, there is no record of it in {database}.{TXS}, and it registered less than \
             {minutes} minutes ago, which records are kept at least: the record, or {database}, was removed or replaced. Nothing is \
             repaired before that time is over"
        ),
    ))
}

/// # Errors
/// [`ErrorKind::Invalid`] when the client keeps its record in another database than `database`.
pub(crate) async fn check_database(server: &Server, database: &str, client: ClientId) -> Result<()> {
    let kept_here = client.tag() == database_tag(database);
    let Err(foreign) = status_where_kept(None, 0, kept_here) else { return Ok(()) };
    let there = databases_of(server, client.tag()).await.unwrap_or_default();
    let place = if there.is_empty() { String::new() } else { format!(", in {}", there.join(" or ")) };
    let known = noted_databases(server).await.unwrap_or_default();
    let known = match known.is_empty() {
        true => String::new(),
        false => format!(" Clients of this deployment have registered in: {}.", known.join(", ")),
    };
    Err(Error::invalid(
        WRONG_OPTIONS,
        format!(
            "{foreign}: client {client}, which has locked a document, has its record in another database than \
             {database}{place}. Nothing is repaired, because its transactions may be committed. All clients of a \
             deployment need the same tx_database.{known}"
        ),
    ))
}
