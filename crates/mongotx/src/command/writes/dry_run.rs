//! Finds out how the server would answer a write that matches nothing.
//!
//! The server checks the whole command before it looks for documents, and refuses a malformed
//! update, projection or hint even when there is nothing to change. Where MongoTx has found nothing
//! and so has sent no write, it sends the user's command with an `_id` that no document has.

use bson::doc;
use sd2v::filter::weakened;

use super::write_commands::{FindAndModify, UpdateCommand};
use crate::{command::query::nowhere::nowhere, coordinator::Core, error::Result, options::Namespace};

/// The error of an update that matches nothing.
pub(crate) async fn update(core: &Core, ns: &Namespace, command: &UpdateCommand) -> Result<()> {
    let mut statement = command.statement(nowhere(&weakened(&command.filter)), false);
    statement.insert("multi", command.multi);
    let mut update = doc! {"update": &ns.coll, "updates": [statement]};
    if let Some(variables) = &command.options.variables {
        update.insert("let", variables.clone());
    }
    core.server.write_directly(&ns.db, update).await?.ok().map(drop)
}

/// The error of a `findAndModify` that matches nothing.
pub(crate) async fn find_and_modify(core: &Core, ns: &Namespace, command: &FindAndModify) -> Result<()> {
    let ask = command.to_command(ns, nowhere(&weakened(command.filter())), false);
    core.server.run_directly(&ns.db, ask).await.map(drop)
}
