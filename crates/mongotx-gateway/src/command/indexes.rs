//! `createIndexes`, `dropIndexes`, `listIndexes`. What they do is not part of a transaction.

use bson::{Bson, Document, RawBsonRef, doc};
use mongotx::{Collection, IndexModel, Namespace};

use super::{
    hidden::OWN,
    parts::{
        body::{Body, HandlerReply},
        call::Call,
        first_batch::FirstBatch,
        lists::{describe, everything, to_raw},
    },
};
use crate::{
    cursor::OpenCursor,
    failure::{Answer, Failure, codes},
    fields::Fields,
    reply::Reply,
};

/// Runs `createIndexes` on a collection.
pub(super) async fn create(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let models = parse_models(call.fields("createIndexes"))?;
    models.iter().try_for_each(|model| call.generic.api.check_index(&model.keys()))?;
    let collection = call.collection::<Document>(&namespace);
    let (is_new, before) = (describe(call, &namespace).await?.is_none(), count(&collection).await?);
    check_in_transaction(call, &namespace, is_new, &collection, &models).await?;
    collection.create_indexes(models).await?;
    let (before, after) = (before.max(1), count(&collection).await?);
    let mut reply = doc! {"numIndexesBefore": before, "numIndexesAfter": after};
    if is_new {
        reply.insert("createdCollectionAutomatically", true);
    } else {
        reply.insert("createdCollectionAutomatically", false);
        if before == after {
            reply.remove("createdCollectionAutomatically");
            reply.insert("note", "all indexes already exist");
        }
    }
    Body::of(&reply)
}

/// In a transaction, indexes are made with their collection only.
async fn check_in_transaction(
    call: &mut Call<'_>,
    namespace: &Namespace,
    is_new: bool,
    collection: &Collection<Document>,
    models: &[IndexModel],
) -> Answer<()> {
    let Some(made) = call.made.as_deref_mut() else { return Ok(()) };
    if is_new {
        made.push(namespace.clone());
    }
    if made.contains(namespace) {
        return Ok(());
    }
    let known = collection.list_index_names().await?;
    let name = |model: &IndexModel| model.spec().get_str("name").unwrap_or_default().to_owned();
    if models.iter().all(|model| known.contains(&name(model))) {
        return Ok(());
    }
    let message =
        format!("Cannot create new indexes on existing collection {namespace} in a multi-document transaction.");
    Err(Failure::new(codes::NOT_IN_TRANSACTION, message))
}

/// The indexes that are to be made.
pub(super) fn parse_models(mut fields: Fields) -> Answer<Vec<IndexModel>> {
    let specs = fields.documents("indexes")?;
    let specs = fields.required("indexes", specs)?;
    fields.ignore(&["commitQuorum", "ignoreUnknownIndexOptions"]);
    fields.finish()?;
    if specs.is_empty() {
        return Err(Failure::new(codes::BAD_VALUE, "Must specify at least one index to create"));
    }
    specs.into_iter().map(to_model).collect()
}

fn to_model(mut spec: Document) -> Answer<IndexModel> {
    let Some(Bson::Document(key)) = spec.remove("key") else {
        let message = "Error in specification: the 'key' field is a required property of an index specification";
        return Err(Failure::new(codes::FAILED_TO_PARSE, message));
    };
    if spec.get_str("name").is_err() {
        let message = "Error in specification: the 'name' field is a required property of an index specification";
        return Err(Failure::new(codes::FAILED_TO_PARSE, message));
    }
    Ok(spec.into_iter().fold(IndexModel::new(key), |model, (option, value)| model.option(&option, value)))
}

async fn count(collection: &Collection<Document>) -> Answer<i32> {
    Ok(i32::try_from(collection.list_index_names().await?.len()).unwrap_or(i32::MAX))
}

/// `dropIndexes`: one by its name or its key, several by their names, or (`*`) all.
pub(super) async fn drop(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let mut fields = call.fields("dropIndexes");
    let which = fields.any("index");
    let which = fields.required("index", which)?;
    fields.finish()?;
    if describe(call, &namespace).await?.is_none() {
        return Err(Failure::new(codes::NAMESPACE_NOT_FOUND, format!("ns not found {namespace}")));
    }
    let collection = call.collection::<Document>(&namespace);
    let before = count(&collection).await?;
    let mut reply = doc! {"nIndexesWas": before};
    match which {
        Bson::String(all) if all == "*" => {
            collection.drop_indexes().await?;
            reply.insert("msg", "non-_id indexes dropped for collection");
        }
        Bson::Array(several) => collection.drop_indexes_named(several).await?,
        one => collection.drop_index(one).await?,
    }
    Body::of(&reply)
}

/// Limit of attempts to list indexes while others make and drop the collection.
const LISTINGS: usize = 16;

fn shows_own_index(reply: &Reply) -> bool {
    let cursor = reply.body().get_document("cursor");
    let listed = cursor.and_then(|cursor| cursor.get_array("firstBatch")).into_iter().flatten();
    let name = |index: RawBsonRef<'_>| index.as_document()?.get_str("name").ok().map(|name| name.starts_with(OWN));
    listed.flatten().filter_map(name).any(|is_own| is_own)
}

/// `listIndexes`. Where none are to be mapped (views, collections that are not there) the server
/// answers.
pub(super) async fn list(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let (namespace, body) = (call.namespace()?, call.body.clone());
    let mut indexes = Vec::new();
    for _ in 0..LISTINGS {
        indexes = call.collection::<Document>(&namespace).list_indexes().await?;
        if !indexes.is_empty() {
            break;
        }
        let reply = call.send_on().await?;
        // The collection may have been made in between, with an index of MongoTx.
        if !shows_own_index(&reply) {
            return Ok(HandlerReply::Server(reply));
        }
        call.body = body.clone();
    }
    let mut fields = call.fields("listIndexes");
    let first = FirstBatch::of_cursor("listIndexes", fields.document("cursor")?)?;
    fields.finish()?;
    let listed = indexes.iter().map(|index| to_raw(index.spec())).collect::<Answer<Vec<_>>>()?;
    call.first_batch(namespace, OpenCursor::of_documents(listed), everything(first)).await.map(HandlerReply::Body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_of_mongotx_in_an_answer_are_seen() {
        let listed = |indexes: Vec<Document>| {
            Reply::from(doc! {"cursor": {"id": 0_i64, "ns": "d.c", "firstBatch": indexes}, "ok": 1})
        };
        let (id, own) = (doc! {"key": {"_id": 1}, "name": "_id_"}, doc! {"name": "_mongotx_pending"});
        assert!(shows_own_index(&listed(vec![id.clone(), own])));
        assert!(!shows_own_index(&listed(vec![id])) && !shows_own_index(&listed(Vec::new())));
        assert!(!shows_own_index(&Reply::from(doc! {"ok": 0, "code": 26})));
    }
}
