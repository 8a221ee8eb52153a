//! `mongotx abort ID`: rolls back an undecided transaction and reports the outcome.
//!
//! Exit status 0: it is rolled back and holds nothing. 1: it is committed or unknown, or something
//! is left.

use clap::Args;
use mongotx::{Client, Outcome, TxId};

use crate::{
    connect::ServerOptions,
    failure::{Failure, Status, WELL, WRONG},
    say,
    survey::Standing,
};

/// Greatest number of rounds of undoing; each undoes up to 1000 documents of each collection.
const ROUNDS: usize = 1_000;

/// Options of the command `mongotx abort`.
#[derive(Args)]
pub(crate) struct AbortOptions {
    /// The transaction: 24 hexadecimal digits, a dot, a number
    id: TxId,
    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the command `mongotx abort`.
pub(crate) async fn run_abort(options: AbortOptions) -> Result<Status, Failure> {
    let client = options.server.connect().await?;
    let id = options.id;
    let before = client.client_info(id.client).await?;
    let open = matches!(Standing::judge(before.as_ref(), id.seq), Standing::Alive | Standing::Dead);
    match client.abort(id).await? {
        Outcome::RolledBack => {
            let left = undo_all(&client, id).await?;
            say::line(&format!("{id}: {}", if open { "rolled back now." } else { "had been rolled back before." }));
            if left > 0 {
                say::line(&format!("It still holds {}: run `mongotx doctor`.", say::count(left, "document")));
                return Ok(WRONG);
            }
            say::line("It holds no document.");
            return Ok(WELL);
        }
        Outcome::Committed => say::line(&format!("{id}: is committed and cannot be rolled back.")),
        Outcome::Unknown => say::line(&format!("{id}: nothing is stored about it, so there is nothing to roll back.")),
        Outcome::Active => say::line(&format!(
            "{id}: could not be rolled back: too many transactions of its client have been. Its lease ends when its \
             client does."
        )),
    }
    Ok(WRONG)
}

/// Undoes all documents that the transaction holds; returns how many of the first ones it still
/// holds afterwards.
async fn undo_all(client: &Client, id: TxId) -> Result<usize, Failure> {
    for _ in 0..ROUNDS {
        if client.documents_of(id, 1).await?.is_empty() {
            return Ok(0);
        }
        client.abort(id).await?;
    }
    Ok(client.documents_of(id, 1_000).await?.len())
}
