//! Shows that the server refuses native transactions: tries one by the official driver, and prints
//! its words.

use std::sync::{Arc, Mutex};

use bson::{Document, doc};
use mongodb::{
    error::{Error, ErrorKind},
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
};

use super::stage::Stage;
use crate::{failure::Failure, say};

/// Tries a native transaction and prints what the server says.
pub(super) async fn show_refusal(stage: &Stage) -> Result<(), Failure> {
    // The driver puts words of its own (about retryable writes) in place of the server's, but its
    // events show them.
    let heard: Arc<Mutex<Option<Error>>> = Arc::default();
    let ear = Arc::clone(&heard);
    let mut options = ClientOptions::parse(&stage.uri).await?;
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Failed(failed) = event
            && let Ok(mut heard) = ear.lock()
        {
            heard.get_or_insert(failed.failure);
        }
    }));
    let answer = try_native(&mongodb::Client::with_options(options)?, &stage.database).await;
    let server = heard.lock().ok().and_then(|mut heard| heard.take());
    stage.live.line(&match answer {
        Ok(()) => "   a native transaction: this server has them (MongoTx does not use them)".to_owned(),
        Err(error) => format!("   a native transaction: refused. The server: {}", words(&server.unwrap_or(error))),
    });
    Ok(())
}

async fn try_native(driver: &mongodb::Client, database: &str) -> Result<(), Error> {
    let coll = driver.database(database).collection::<Document>("native");
    let mut session = driver.start_session().await?;
    session.start_transaction().await?;
    coll.insert_one(doc! {"_id": 1}).session(&mut session).await?;
    session.abort_transaction().await
}

fn words(error: &Error) -> String {
    match error.kind.as_ref() {
        ErrorKind::Command(refused) => {
            let words = format!("{:?} (code {}, {})", refused.message, refused.code, refused.code_name);
            say::plain(&words)
        }
        _ => say::plain(&error.to_string()),
    }
}
