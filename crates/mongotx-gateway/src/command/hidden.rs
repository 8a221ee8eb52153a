//! Server commands whose answers would show what MongoTx stores for itself (its database, its
//! indexes): these parts are removed, and the application's unique indexes have their names.

use bson::{Bson, Document};
use mongotx::is_own_collection;

use super::parts::call::Call;
use crate::{failure::Answer, fields::as_number, reply::Reply};

/// Prefix of the names of indexes that are MongoTx's.
pub(super) const OWN: &str = "_mongotx_";
/// Prefix of those that the application's unique indexes are stored as, followed by its names.
const UNIQUE: &str = "_mongotx_unique.";

/// `listDatabases`, without the database of the client records unless there is more in it, and
/// without those that the user has no role on.
pub(super) async fn databases(call: &mut Call<'_>) -> Answer<Reply> {
    let own = call.context.options.client.tx_database.clone();
    let names = call.context.client.database(&own).list_collection_names().await?;
    let is_hidden = names.iter().all(|name| is_own_collection(name));
    let mut reply = server_reply(call).await?;
    let user = call.user;
    hide_databases(&mut reply, |name| is_hidden && name == own || user.is_some_and(|user| !user.knows(name)));
    Ok(reply.into())
}

fn hide_databases(reply: &mut Document, is_hidden: impl Fn(&str) -> bool) {
    let Ok(databases) = reply.get_array_mut("databases") else { return };
    let mut hidden = 0;
    databases.retain(|database| {
        let Some(database) = database.as_document() else { return true };
        let hide = database.get_str("name").is_ok_and(&is_hidden);
        if hide {
            hidden += database.get("sizeOnDisk").and_then(as_number).unwrap_or(0);
        }
        !hide
    });
    if let Some(total) = reply.get("totalSize").and_then(as_number) {
        reply.insert("totalSize", total - hidden);
        reply.insert("totalSizeMb", (total - hidden) >> 20);
    }
}

/// `validate`, `collStats` and others, without the indexes that MongoTx adds.
pub(super) async fn statistics(call: &mut Call<'_>) -> Answer<Reply> {
    call.namespace()?;
    let mut reply = server_reply(call).await?;
    let hidden = ["keysPerIndex", "indexSizes"].iter().filter_map(|field| reply.get_document(field).ok());
    let hidden =
        hidden.map(|listed| listed.keys().filter(|name| shown_name(name).is_none()).count()).max().unwrap_or(0);
    for count in ["nIndexes", "nindexes"] {
        if let Some(all) = reply.get(count).and_then(as_number) {
            reply.insert(count, i32::try_from(all).unwrap_or(i32::MAX).saturating_sub(hidden as i32));
        }
    }
    show_indexes(&mut reply);
    Ok(reply.into())
}

/// The application's name of a stored index. `None`: the index is MongoTx's own.
fn shown_name(stored: &str) -> Option<&str> {
    stored.strip_prefix(UNIQUE).or_else(|| (!stored.starts_with(OWN)).then_some(stored))
}

/// Drops every field that has the name of an index of MongoTx's, at any depth, and renames those of
/// unique indexes.
fn show_indexes(document: &mut Document) {
    let fields = std::mem::take(document).into_iter().filter_map(|(name, mut value)| {
        if let Bson::Document(nested) = &mut value {
            show_indexes(nested);
        }
        shown_name(&name).map(|shown| (shown.to_owned(), value))
    });
    *document = fields.collect();
}

/// `dbStats` and `dataSize`: there is nothing in them to hide.
pub(super) async fn unchanged(call: &mut Call<'_>) -> Answer<Reply> {
    call.send_on().await
}

async fn server_reply(call: &mut Call<'_>) -> Answer<Document> {
    let reply = call.send_on().await?;
    Ok(Document::try_from(reply.body()).map_err(mongotx::Error::from)?)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn own_indexes_are_hidden_at_any_depth_and_unique_ones_shown() {
        let mut stats = doc! {
            "indexSizes": {"_id_": 1, "_mongotx_pending": 2, "_mongotx_unique.x": 3, "y": 4},
            "shards": {"a": {"_mongotx_unsafe.x": 1, "_mongotx_unique.x": {"valid": true}}},
        };
        show_indexes(&mut stats);
        let expected = doc! {"indexSizes": {"_id_": 1, "x": 3, "y": 4}, "shards": {"a": {"x": {"valid": true}}}};
        assert_eq!(stats.to_string(), expected.to_string());
    }

    #[test]
    fn the_own_database_is_hidden_with_its_size() {
        let mut reply = doc! {
            "databases": [{"name": "a", "sizeOnDisk": 5_i64}, {"name": "mongotx", "sizeOnDisk": 7_i64}],
            "totalSize": 12_i64,
        };
        hide_databases(&mut reply, |name| name == "mongotx");
        assert_eq!(reply.get_array("databases").map(Vec::len).unwrap_or(0), 1);
        assert_eq!(reply.get("totalSize"), Some(&Bson::Int64(5)));
    }
}
