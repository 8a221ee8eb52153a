//! `mongotx ls`: the clients, and the transactions that hold documents now. Changes nothing.
//!
//! Looks only into collections that the records of unfinished clients name; `doctor` looks
//! everywhere.

use std::{collections::BTreeSet, time::Duration};

use clap::Args;
use mongotx::{ClientInfo, Namespace};

use crate::{
    activity::Activity,
    connect::ServerOptions,
    failure::{Context, Failure, Status, WELL},
    say,
    survey::{Clients, Survey, client_state, names},
    table::Table,
};

/// Unfinished numbers shown per client.
const SHOWN: usize = 8;

/// Options of the command `mongotx ls`.
#[derive(Args)]
pub(crate) struct LsOptions {
    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the command `mongotx ls`.
pub(crate) async fn run_ls(options: LsOptions) -> Result<Status, Failure> {
    let client = options.server.connect().await?;
    let driver = options.server.connect_driver().await?;
    let mut clients = client
        .clients()
        .await
        .context("the client records cannot be listed (`mongotx doctor` looks at each by itself)")?;
    if clients.is_empty() {
        say::line(&format!("No client has a record in {}.txs.", options.server.tx_database));
        return Ok(WELL);
    }
    clients.sort_by_key(|client| client.id);
    say::line(&client_table(&clients).to_string());
    let namespaces: BTreeSet<&Namespace> =
        clients.iter().filter(|client| !client.closed).flat_map(|client| &client.namespaces).collect();
    let survey = Survey::of(&driver, namespaces).await?;
    let activity = Activity::read(&driver, &options.server.tx_database).await?;
    say::line("");
    show_transactions(&client, &survey, &activity).await?;
    Ok(WELL)
}

fn client_table(clients: &[ClientInfo]) -> Table {
    let mut table = Table::new(["CLIENT", "STATE", "LEASE", "SILENT FOR", "LOW", "UNFINISHED", "COLLECTIONS", "WHO"]);
    for client in clients {
        table.row([
            client.id.to_string(),
            client_state(client).to_owned(),
            say::span(client.lease),
            say::span(client.silent),
            client.low.to_string(),
            unfinished(&client.committed),
            names(&client.namespaces),
            about(client),
        ]);
    }
    table
}

/// The client's description of itself in its record.
pub(crate) fn about(client: &ClientInfo) -> String {
    client.process_info.as_ref().map_or_else(|| "-".to_owned(), |about| say::plain(&about.to_string()))
}

/// Committed numbers that are not all finished, a few of them by name.
pub(crate) fn unfinished(committed: &[u64]) -> String {
    let shown: Vec<String> = committed.iter().take(SHOWN).map(u64::to_string).collect();
    match committed.len().saturating_sub(SHOWN) {
        0 if shown.is_empty() => "-".to_owned(),
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}

async fn show_transactions(client: &mongotx::Client, survey: &Survey, activity: &Activity) -> Result<(), Failure> {
    if survey.holdings.is_empty() {
        say::line("No transaction holds a document.");
    } else {
        // The records are read again: they must not be older than the locks.
        let clients = Clients::read(client, survey.holdings.keys().map(|id| id.client)).await?;
        let headings =
            ["TRANSACTION", "STATUS", "DOCUMENTS", "COLLECTIONS", "OPEN FOR", "WHO", "LAST STATEMENT", "WAITS FOR"];
        let mut table = Table::new(headings);
        for (id, holding) in &survey.holdings {
            let status = clients.judge(*id).words().to_owned();
            let doing = activity.of(*id).cloned().unwrap_or_default();
            let open = if doing.open_ms > 0 { say::span(Duration::from_millis(doing.open_ms)) } else { String::new() };
            let waits_for = doing.waits_for.map(|id| id.to_string()).unwrap_or_default();
            let [documents, collections] = [holding.words(), holding.collections()];
            table.row([id.to_string(), status, documents, collections, open, doing.who, doing.statement, waits_for]);
        }
        say::line(&table.to_string());
    }
    if survey.damaged_count > 0 {
        let damaged = say::count(survey.damaged_count, "document");
        say::line(&format!("\n{damaged} with damaged metadata: run `mongotx doctor`."));
    }
    Ok(())
}
