//! Stripping damaged documents of reserved fields that no transaction of MongoTx has given them.
//!
//! All fields that are taken away are printed: they may be data that an application had under these
//! names.

use bson::{Bson, Document, doc};
use sd2v::{
    names::{READERS, RESERVED, WRITER, tx_id_from_bson},
    stored::whole_lock_state,
};

use crate::{
    failure::Failure,
    say,
    survey::{Clients, Damaged, Standing},
};

/// Characters of a field's content that are printed.
const SHOWN: usize = 2_000;

/// Strips one document, in one step that demands that its reserved fields are still those that were
/// seen. Names the fields that it leaves alone, with the reason. Returns whether the document was
/// stripped. `elsewhere`: whether this client's record is in another database.
pub(crate) async fn strip(
    driver: &mongodb::Client,
    damaged: &Damaged,
    clients: &Clients,
    elsewhere: impl Fn(mongotx::ClientId) -> bool,
) -> Result<bool, Failure> {
    let (namespace, id) = (&damaged.namespace, &damaged.id);
    let coll = driver.database(&namespace.db).collection::<Document>(&namespace.coll);
    let simple = mongodb::options::Collation::builder().locale("simple").build();
    let this = doc! {"_id": {"$eq": id}};
    let Some(stored) = coll.find_one(this.clone()).collation(simple).await? else { return Ok(false) };
    if whole_lock_state(&stored).is_ok() {
        return Ok(false);
    }
    let named = format!("{}, document {}", say::plain(&namespace.to_string()), say::id(id));
    if let Some(writer) = stored.get(WRITER).and_then(tx_id_from_bson)
        && (clients.judge(writer) != Standing::NoRecord || elsewhere(writer.client))
    {
        say::warn(&format!("{named} is left alone: the client of transaction {writer} has a record"));
        return Ok(false);
    }
    let mut demanded = this;
    let mut gone = Document::new();
    for name in RESERVED {
        match stored.get(name) {
            Some(value) => demanded.insert(name, doc! {"$eq": value.clone()}),
            None => demanded.insert(name, doc! {"$exists": false}),
        };
        if let Some(value) = stored.get(name).filter(|value| !is_sound(name, value)) {
            gone.insert(name, value.clone());
        }
    }
    let unset: Document = gone.keys().map(|name| (name.clone(), Bson::from(""))).collect();
    let command = doc! {
        "update": &namespace.coll, "bypassDocumentValidation": true,
        "updates": [{"q": demanded, "u": {"$unset": unset}, "multi": true, "collation": {"locale": "simple"}}],
    };
    let answer = driver.database(&namespace.db).run_command(command).await?;
    let is_done = answer.get("nModified").is_some_and(|n| *n != Bson::Int32(0) && *n != Bson::Int64(0));
    for (name, value) in gone.iter().filter(|_| is_done) {
        say::line(&format!("Stripped {named} of {name:?}: {}", shown(value)));
    }
    Ok(is_done)
}

/// Returns true if a field stays: read locks of transactions do, whatever else is wrong.
fn is_sound(name: &str, value: &Bson) -> bool {
    let all_ids = |ids: &Vec<Bson>| !ids.is_empty() && ids.iter().all(|id| tx_id_from_bson(id).is_some());
    name == READERS && value.as_array().is_some_and(all_ids)
}

/// The field in full, up to a limit, so that it can be put back under another name.
fn shown(value: &Bson) -> String {
    let text = say::plain(&value.to_string());
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes in all)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_contents_are_cut_between_characters() {
        let text = shown(&Bson::from("é".repeat(SHOWN * 2)));
        assert!(text.ends_with("bytes in all)") && text.len() < SHOWN * 3, "{text}");
        let odd = shown(&doc! {"a": "\u{1b}"}.into());
        assert!(odd.contains("\"a\"") && !odd.contains('\u{1b}'), "{odd}");
    }
}
