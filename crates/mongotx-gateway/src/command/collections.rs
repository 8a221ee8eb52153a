//! `create`, `drop`, `dropDatabase`, `renameCollection`, `collMod`, `listCollections`. What they do
//! is not part of a transaction.

use bson::{Bson, Document};
use mongotx::{Namespace, is_own_collection};

use super::parts::{
    body::Body,
    call::{Call, namespace_of},
    first_batch::FirstBatch,
    lists::{describe, everything, to_raw},
};
use crate::{
    cursor::OpenCursor,
    failure::{Answer, Failure, codes},
    fields::{Fields, type_name},
};

/// Fields of `create` that are not in API version 1.
pub(super) const UNSTABLE: [&str; 9] = [
    "max",
    "autoIndexId",
    "size",
    "storageEngine",
    "indexOptionDefaults",
    "changeStreamPreAndPostImages",
    "temp",
    "flags",
    "recordPreImages",
];

/// Runs `create`, for collections and views.
pub(super) async fn create(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let options = call.fields("create").into_rest();
    call.generic.api.check_pipeline(options.get("pipeline"))?;
    call.check_view(&options)?;
    if call.is_in_transaction() {
        check_in_transaction(&options)?;
    }
    let database = call.context.client.database(&namespace.db);
    let mut action = database.create_collection(&namespace.coll);
    for (option, value) in options {
        action = action.option(&option, value);
    }
    action.await?;
    if let Some(made) = call.made.as_deref_mut() {
        made.push(namespace);
    }
    Ok(Body::empty())
}

/// Refuses what the server creates in no transaction.
fn check_in_transaction(options: &Document) -> Answer<()> {
    let kinds = [("viewOn", "a view"), ("timeseries", "a time-series collection")];
    let Some((_, kind)) = kinds.iter().find(|(option, _)| options.contains_key(option)) else { return Ok(()) };
    let message = format!("Cannot create {kind} in a multi-document transaction.");
    Err(Failure::new(codes::NOT_IN_TRANSACTION, message))
}

/// Runs `drop` on a collection or view.
pub(super) async fn drop(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    call.fields("drop").finish()?;
    let Some(described) = describe(call, &namespace).await? else {
        return Err(Failure::new(codes::NAMESPACE_NOT_FOUND, "ns not found"));
    };
    let collection = call.collection::<Document>(&namespace);
    let mut reply = Document::new();
    if described.get_str("type").is_ok_and(|kind| kind == "collection") {
        let indexes = collection.list_index_names().await?.len();
        reply.insert("nIndexesWas", i32::try_from(indexes).unwrap_or(i32::MAX));
    }
    reply.insert("ns", namespace.to_string());
    collection.drop().await?;
    Body::of(&reply)
}

/// Runs `dropDatabase` on the command's database.
pub(super) async fn drop_database(call: &mut Call<'_>) -> Answer<Body> {
    call.fields("dropDatabase").finish()?;
    call.context.client.database(call.db).drop().await?;
    Ok(Body::empty())
}

/// Runs `renameCollection`, which is sent to `admin`.
pub(super) async fn rename(call: &mut Call<'_>) -> Answer<Body> {
    if call.db != "admin" {
        let message = "renameCollection may only be run against the admin database.";
        return Err(Failure::new(codes::UNAUTHORIZED, message));
    }
    let from = match call.body.get(call.name).unwrap_or(&Bson::Null) {
        Bson::String(from) => from.clone(),
        other => {
            let message = format!("collection name has invalid type {}", type_name(other));
            return Err(Failure::new(codes::BAD_VALUE, message));
        }
    };
    let Renaming { to, drops_target } = Renaming::parse(call.fields("renameCollection"))?;
    let invalid = |message: String| Failure::new(codes::INVALID_NAMESPACE, message);
    let named = |name: &str| {
        let (db, collection) =
            name.split_once('.').filter(|(db, collection)| !db.is_empty() && !collection.is_empty())?;
        Some(namespace_of(call.context, db, collection))
    };
    let from = named(&from).ok_or_else(|| invalid(format!("Invalid namespace specified '{from}'")))??;
    let to = named(&to).ok_or_else(|| invalid(format!("Invalid target namespace: {to}")))??;
    call.collection::<Document>(&from).rename(&to, drops_target).await?;
    Ok(Body::empty())
}

/// Arguments of `renameCollection`, without the collection.
pub(super) struct Renaming {
    to: String,
    drops_target: bool,
}

impl Renaming {
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let to = fields.text("to")?;
        let parsed = Self { to: fields.required("to", to)?, drops_target: fields.flag("dropTarget")?.unwrap_or(false) };
        // Of the server's own, for collections that it makes for a while.
        fields.refuse(&["stayTemp"], "it is about temporary collections of the server")?;
        fields.finish()?;
        Ok(parsed)
    }
}

/// Runs `collMod` on a collection or index.
pub(super) async fn modify(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let options = call.fields("collMod").into_rest();
    call.check_view(&options)?;
    // What the user may read was asked for one of them only.
    if call.user.is_some() && options.contains_key("viewOn") != options.contains_key("pipeline") {
        let message = "Must specify both 'viewOn' and 'pipeline' when modifying a view and auth is enabled";
        return Err(Failure::new(codes::INVALID_OPTIONS, message));
    }
    let database = call.context.client.database(&namespace.db);
    let mut action = database.modify_collection(&namespace.coll);
    for (option, value) in options {
        action = action.option(&option, value);
    }
    Body::of(&action.await?)
}

/// Runs `listCollections` on the command's database.
pub(super) async fn list(call: &mut Call<'_>) -> Answer<Body> {
    let mut fields = call.fields("listCollections");
    let filter = fields.document("filter")?.unwrap_or_default();
    let name_only = fields.flag("nameOnly")?.unwrap_or(false);
    let first = FirstBatch::of_cursor("listCollections", fields.document("cursor")?)?;
    fields.ignore(&["authorizedCollections"]);
    fields.finish()?;
    let database = call.context.client.database(call.db);
    let is_ours = |info: &Document| {
        call.db == call.context.options.client.tx_database && info.get_str("name").is_ok_and(is_own_collection)
    };
    let mut listed = Vec::new();
    for mut info in database.describe_collections(filter).await? {
        if is_ours(&info) {
            continue;
        }
        if name_only {
            info = info.into_iter().filter(|(field, _)| ["name", "type"].contains(&field.as_str())).collect();
        }
        listed.push(to_raw(&info)?);
    }
    let namespace = command_namespace(call, "listCollections")?;
    call.first_batch(namespace, OpenCursor::of_documents(listed), everything(first)).await
}

fn command_namespace(call: &Call<'_>, command: &str) -> Answer<Namespace> {
    call.namespace_of(&Bson::String(format!("$cmd.{command}")))
}
