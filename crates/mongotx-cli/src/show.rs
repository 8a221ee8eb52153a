//! `mongotx show ID`: one transaction, or one client with its transactions and documents. It reads,
//! and changes nothing; `abort` and `doctor` do.

use std::{str::FromStr, time::Duration};

use clap::Args;
use mongotx::{Client, ClientId, TxId};

use crate::{
    activity::Activity,
    connect::ServerOptions,
    failure::{Failure, Status, WELL, WRONG},
    ls, say,
    survey::{Clients, Decision, Standing, Survey, client_state, names},
    table::Table,
};

/// Greatest number of documents that are listed.
const SHOWN: usize = 1_000;

/// Options of the command `mongotx show`.
#[derive(Args)]
pub(crate) struct ShowOptions {
    /// A transaction (24 hexadecimal digits, a dot, a number) or a client (24 hexadecimal digits)
    id: Subject,
    #[command(flatten)]
    server: ServerOptions,
}

/// The thing that an id names.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Transaction(TxId),
    Client(ClientId),
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.contains('.') {
            true => text.parse().map(Self::Transaction).ok(),
            false => text.parse().map(Self::Client).ok(),
        };
        parsed.ok_or_else(|| {
            "expected a transaction (24 hexadecimal digits, a dot and a number from 1 on, as in \
             65a1f0c2b3d4e5f601234567.42) or a client (24 hexadecimal digits)"
                .to_owned()
        })
    }
}

/// Runs the command `mongotx show`.
pub(crate) async fn run_show(options: ShowOptions) -> Result<Status, Failure> {
    let client = options.server.connect().await?;
    match options.id {
        Subject::Transaction(id) => {
            let driver = options.server.connect_driver().await?;
            let activity = Activity::read(&driver, &options.server.tx_database).await?;
            show_transaction(&client, &activity, id).await
        }
        Subject::Client(id) => {
            let driver = options.server.connect_driver().await?;
            show_client(&client, &driver, id).await
        }
    }
}

async fn show_transaction(client: &Client, activity: &Activity, id: TxId) -> Result<Status, Failure> {
    let held = client.documents_of(id, SHOWN).await?;
    let Some(info) = client.client_info(id.client).await? else {
        say::line(&format!(
            "{id}: nothing is stored about it. It never existed, or it ended longer ago than outcomes are kept (30 \
             minutes)."
        ));
        return Ok(WRONG);
    };
    let standing = Standing::judge(Some(&info), id.seq);
    say::line(&format!("{id}: {}", outcome(standing, held.is_empty())));
    let who = if info.process_info.is_some() { format!(" It is {}.", ls::about(&info)) } else { String::new() };
    say::line(&format!("Its client is {}, silent for {}.{who}", client_state(&info), say::span(info.silent)));
    tell_activity(activity, id);
    if held.is_empty() {
        say::line("It holds no document.");
        return Ok(WELL);
    }
    let mut table = Table::new(["COLLECTION", "DOCUMENT", "LOCK"]);
    for document in &held {
        let lock = match (document.lock.writer == Some(id), document.lock.insert, document.lock.remove) {
            (false, _, _) => "read",
            (true, true, _) => "inserted",
            (true, _, true) => "removed",
            (true, false, false) => "changed",
        };
        table.row([say::plain(&document.namespace.to_string()), say::id(&document.id), lock.to_owned()]);
    }
    say::line(&table.to_string());
    if held.len() >= SHOWN {
        say::line(&format!("(At most {SHOWN} documents of each collection are listed.)"));
    }
    Ok(WELL)
}

/// Prints which client runs the transaction, and which transactions wait for it.
fn tell_activity(activity: &Activity, id: TxId) {
    if let Some(doing) = activity.of(id) {
        let open = say::span(Duration::from_millis(doing.open_ms));
        say::line(&format!("It is run at the gateway {} by {}, and was open for {open}.", doing.gateway, doing.who));
        say::line(&format!("Its last statement: {}", doing.statement));
        if let Some(rival) = doing.waits_for {
            let who = activity.of(rival).map(|rival| format!(", run by {}", rival.who)).unwrap_or_default();
            say::line(&format!("It waits for {rival}{who}."));
        }
    }
    for (waiting, doing) in activity.waiting_for(id) {
        say::line(&format!("{waiting} waits for it, run by {}: {}", doing.who, doing.statement));
    }
}

/// The outcome, in words. For a transaction that holds nothing it does not say which client cleans
/// up.
fn outcome(standing: Standing, holds_nothing: bool) -> &'static str {
    match standing {
        Standing::Finishing(Decision::Committed) | Standing::Left(Decision::Committed) if holds_nothing => "committed",
        Standing::Finishing(Decision::RolledBack) | Standing::Left(Decision::RolledBack) if holds_nothing => {
            "rolled back"
        }
        Standing::Dead if holds_nothing => "rolled back: its client was gone before it was decided",
        Standing::Alive if holds_nothing => "undecided, or not begun yet",
        Standing::Orphan => "committed and finished",
        other => other.words(),
    }
}

async fn show_client(client: &Client, driver: &mongodb::Client, id: ClientId) -> Result<Status, Failure> {
    let Some(info) = client.client_info(id).await? else {
        say::line(&format!("Client {id}: there is no record of it."));
        return Ok(WRONG);
    };
    let survey = Survey::of(driver, &info.namespaces).await?;
    let mut about = Table::without_heading();
    about.row(["client".to_owned(), id.to_string()]);
    about.row(["who".to_owned(), ls::about(&info)]);
    about.row(["state".to_owned(), client_state(&info).to_owned()]);
    about.row(["lease".to_owned(), say::span(info.lease)]);
    about.row(["silent for".to_owned(), say::span(info.silent)]);
    about.row(["decided and finished".to_owned(), format!("every number below {}", info.low)]);
    about.row(["committed, unfinished".to_owned(), ls::unfinished(&info.committed)]);
    about.row(["collections".to_owned(), names(&info.namespaces)]);
    say::line(&about.to_string());
    let clients = Clients::read(client, [id]).await?;
    let mut table = Table::new(["TRANSACTION", "STATUS", "DOCUMENTS", "COLLECTIONS"]);
    let mut holds = false;
    for (tx, holding) in survey.holdings.iter().filter(|(tx, _)| tx.client == id) {
        table.row([tx.to_string(), clients.judge(*tx).words().to_owned(), holding.words(), holding.collections()]);
        holds = true;
    }
    say::line(&if holds { format!("\n{table}") } else { "It holds no document.".to_owned() });
    Ok(WELL)
}
