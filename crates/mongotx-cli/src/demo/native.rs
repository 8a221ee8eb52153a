//! The server's own words about its own transactions.

use bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};

use super::stage::Stage;
use crate::{failure::Failure, say};

/// Tries a native transaction and prints what the server says.
pub(super) async fn show_refusal(stage: &Stage) -> Result<(), Failure> {
    let driver = stage.driver().await?;
    let answer = try_native(&driver, &stage.database).await;
    say::line(&match answer {
        Ok(()) => "   a native transaction: this server has them (MongoTx does not use them)".to_owned(),
        Err(error) => format!("   a native transaction: refused. The server: {}", words(&error)),
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
