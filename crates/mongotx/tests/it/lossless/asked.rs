//! A server's command, sent through the library's methods, and its answer in the form of
//! [`local_mongod::lookalikes::content`].

use bson::{Bson, Document, RawDocumentBuf, doc};
use mongotx::{Collection, ErrorKind, FindAndModifyResult, Modification, ReturnDocument, Session, UpdateResult};
use serde::{Serialize, de::DeserializeOwned};

/// Types of which a collection may be.
pub(super) trait Kind: Serialize + DeserializeOwned + 'static {
    fn of(document: &Document) -> Self;
    fn document(&self) -> Document;
}

impl Kind for Document {
    fn of(document: &Document) -> Self {
        document.clone()
    }

    fn document(&self) -> Document {
        self.clone()
    }
}

impl Kind for RawDocumentBuf {
    fn of(document: &Document) -> Self {
        RawDocumentBuf::try_from(document).unwrap()
    }

    fn document(&self) -> Document {
        Document::try_from(self).unwrap()
    }
}

/// The action in the session, if there is one.
macro_rules! within {
    ($session:expr, $action:expr) => {
        match $session {
            Some(session) => $action.session(session).await,
            None => $action.await,
        }
    };
}

/// Carries out the command through the library.
pub(super) async fn ask<T: Kind>(coll: &Collection<T>, session: Option<&mut Session>, command: &Document) -> Document {
    let name = command.keys().next().unwrap().as_str();
    let done = match name {
        "insert" => insert(coll, session, command).await,
        "find" => find(coll, session, command).await,
        "aggregate" => aggregate(coll, session, command).await,
        "distinct" => {
            let values = coll.distinct(command.get_str("key").unwrap(), Document::new());
            within!(session, values).map(|values| doc! {"values": values})
        }
        "update" => update(coll, session, part(command, "updates")).await,
        "delete" => delete(coll, session, part(command, "deletes")).await,
        "findAndModify" => modify(coll, session, command).await,
        other => panic!("no such command: {other}"),
    };
    done.unwrap_or_else(|error| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{command}: {error}");
        let is_write = ["insert", "update", "delete"].contains(&name);
        let code = error.write_errors().first().map_or(error.code().unwrap(), |first| first.code);
        if is_write {
            doc! {"n": 0, "refused": [code]}
        } else {
            doc! {"code": code}
        }
    })
}

fn part(command: &Document, name: &str) -> Document {
    command.get_array(name).unwrap()[0].as_document().unwrap().clone()
}

async fn insert<T: Kind>(
    coll: &Collection<T>,
    session: Option<&mut Session>,
    command: &Document,
) -> mongotx::Result<Document> {
    let given = command.get_array("documents").unwrap().iter().map(|one| T::of(one.as_document().unwrap()));
    let given: Vec<T> = given.collect();
    let inserted = match &given[..] {
        [one] => within!(session, coll.insert_one(one)).map(|_| 1),
        several => within!(session, coll.insert_many(several)).map(|ids| ids.len()),
    };
    Ok(doc! {"n": i32::try_from(inserted?).unwrap()})
}

async fn find<T: Kind>(
    coll: &Collection<T>,
    session: Option<&mut Session>,
    command: &Document,
) -> mongotx::Result<Document> {
    let filter = command.get_document("filter").unwrap().clone();
    if command.contains_key("limit") {
        let one = coll.find_one(filter).projection(command.get_document("projection").unwrap().clone());
        let found = within!(session, one)?;
        return Ok(doc! {"shown": found.iter().map(Kind::document).collect::<Vec<_>>()});
    }
    let query = coll.find(filter).sort(command.get_document("sort").unwrap().clone());
    let found: Vec<T> = within!(session, query)?.try_collect().await?;
    Ok(doc! {"shown": found.iter().map(Kind::document).collect::<Vec<_>>()})
}

async fn aggregate<T: Kind>(
    coll: &Collection<T>,
    session: Option<&mut Session>,
    command: &Document,
) -> mongotx::Result<Document> {
    let stages = command.get_array("pipeline").unwrap().iter().map(|stage| stage.as_document().unwrap().clone());
    let found: Vec<T> = within!(session, coll.aggregate(stages).with_type::<T>())?.try_collect().await?;
    Ok(doc! {"shown": found.iter().map(Kind::document).collect::<Vec<_>>()})
}

fn modification(update: &Bson) -> Option<Modification> {
    match update {
        Bson::Array(stages) => {
            Some(Modification::Pipeline(stages.iter().map(|stage| stage.as_document().unwrap().clone()).collect()))
        }
        Bson::Document(update) if update.keys().next().is_some_and(|name| name.starts_with('$')) => {
            Some(Modification::Operators(update.clone()))
        }
        _ => None,
    }
}

async fn update<T: Kind>(
    coll: &Collection<T>,
    session: Option<&mut Session>,
    statement: Document,
) -> mongotx::Result<Document> {
    let filter = statement.get_document("q").unwrap().clone();
    let upsert = statement.get_bool("upsert").unwrap();
    let action = match modification(&statement["u"]) {
        Some(update) => coll.update_one(filter, update),
        None => coll.replace_one(filter, &T::of(statement.get_document("u").unwrap())),
    };
    let UpdateResult { matched_count: matched, modified_count: modified, upserted_id, .. } =
        within!(session, action.upsert(upsert))?;
    let n = matched + u64::from(upserted_id.is_some());
    let mut reply = doc! {"n": n as i32, "nModified": modified as i32};
    if let Some(id) = upserted_id {
        reply.insert("upserted", [doc! {"index": 0, "_id": id}]);
    }
    Ok(reply)
}

async fn delete<T: Kind>(
    coll: &Collection<T>,
    session: Option<&mut Session>,
    statement: Document,
) -> mongotx::Result<Document> {
    let filter = statement.get_document("q").unwrap().clone();
    let deleted = match statement.get_i32("limit").unwrap() {
        1 => within!(session, coll.delete_one(filter))?,
        _ => within!(session, coll.delete_many(filter))?,
    };
    Ok(doc! {"n": deleted as i32})
}

/// The document, once decoded by its type and once as `in_full` has it: each command goes one way,
/// by its fields.
async fn modify<T: Kind>(
    coll: &Collection<T>,
    session: Option<&mut Session>,
    command: &Document,
) -> mongotx::Result<Document> {
    let query = command.get_document("query").unwrap().clone();
    let Some(update) = command.get("update") else {
        let removed = within!(session, coll.find_one_and_delete(query))?;
        return Ok(doc! {"value": removed.map(|document| document.document())});
    };
    let mut action = match modification(update) {
        Some(update) => coll.find_one_and_update(query, update),
        None => coll.find_one_and_replace(query, &T::of(update.as_document().unwrap())),
    };
    if command.get_bool("new").is_ok_and(|new| new) {
        action = action.return_document(ReturnDocument::After);
    }
    if let Ok(sort) = command.get_document("sort") {
        action = action.sort(sort.clone());
    }
    if let Ok(fields) = command.get_document("fields") {
        action = action.projection(fields.clone());
    }
    if command.get_bool("upsert").is_ok_and(|upsert| upsert) {
        let action = action.upsert(true);
        let FindAndModifyResult { value, .. } = match session {
            Some(session) => action.session(session).in_full().await?,
            None => action.in_full().await?,
        };
        return Ok(doc! {"value": value});
    }
    let shown = within!(session, action)?;
    Ok(doc! {"value": shown.map(|document| document.document())})
}
