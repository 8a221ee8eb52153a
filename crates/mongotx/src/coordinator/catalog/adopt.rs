//! Indexes and validators that were made without MongoTx, brought into the form that transactions
//! need.
//!
//! 1. The mirrored index first, so that from now on no pending value goes unseen.
//! 2. The new form of the index, then the old one goes: uniqueness and expiry are never suspended.
//! 3. The validator is replaced by one that judges unsafe versions.
//!
//! Any number of clients may do this at a time; interrupted, it goes on with the next look-up.
//! Writers that do not use MongoTx see the same constraints as before.

use bson::{Bson, Document, doc};
use sd2v::{
    index::{Index, plan_creation},
    validator,
};

use super::{Collection, Server};
use crate::{
    error::{Error, Result},
    options::Namespace,
};

/// Number of MongoDB's error code `IndexNotFound`.
const NO_SUCH_INDEX: i32 = 27;
/// Numbers of the errors of a `dropIndexes` of several that one is not there, or that the server
/// takes no list: `IndexNotFound`, `BadValue`, `FailedToParse`, `TypeMismatch`.
const ONE_BY_ONE: [i32; 4] = [NO_SUCH_INDEX, 2, 9, 14];

pub(super) async fn adopt(server: &Server, ns: &Namespace, found: &Collection) -> Result<()> {
    for index in found.indexes.iter().filter(|index| !index.is_adopted()) {
        adopt_index(server, ns, index).await.map_err(|error| {
            let name = index.name();
            let message = format!(
                "transactions cannot write to {ns}: its index {name:?} could not be stored as they need it: {error}"
            );
            Error::unsupported(message)
        })?;
    }
    if let Some(stored) = &found.validator
        && validator::unwrap(stored).is_none()
    {
        let wrapped = validator::wrap(stored)?;
        server.run_command(&ns.db, doc! {"collMod": &ns.coll, "validator": wrapped}).await.map_err(|error| {
            let message = format!(
                "transactions cannot write to {ns}: its validator could not be made to judge unsafe versions: {error}"
            );
            Error::unsupported(message)
        })?;
    }
    Ok(())
}

async fn adopt_index(server: &Server, ns: &Namespace, index: &Index) -> Result<()> {
    tracing::info!(%ns, index = index.name(), "storing an index as transactions need it");
    let creation = plan_creation(&index.spec, index.mirrored)?;
    if !index.mirrored {
        create(server, ns, creation.mirror.into_iter().collect()).await?;
    }
    if index.expires_twice() {
        // Its older expiry has no effect beside the one that another program has set.
        drop_stored(server, ns, &[index.guard_name()]).await?;
    }
    let has_old_name = |spec: &Document| spec.get_str("name").is_ok_and(|name| name == index.name());
    let (again, new): (Vec<Document>, Vec<Document>) = creation.main.into_iter().partition(has_old_name);
    if new.is_empty() {
        return Ok(());
    }
    create(server, ns, new).await?;
    if index.stored_name == index.name() {
        drop_stored(server, ns, &[index.name().to_owned()]).await?;
    }
    create(server, ns, again).await.map(drop)
}

/// Creates stored indexes. Returns true if one of them was not there; `None`: a router, and some
/// servers, do not say.
pub(crate) async fn create(server: &Server, ns: &Namespace, specs: Vec<Document>) -> Result<Option<bool>> {
    if specs.is_empty() {
        return Ok(Some(false));
    }
    let mut create = doc! {"createIndexes": &ns.coll, "indexes": specs};
    server.nodes.with_quorum(&mut create);
    let made = server.run_directly(&ns.db, create).await?;
    let number = |field| made.get(field).and_then(Bson::as_i32);
    Ok(number("numIndexesBefore").zip(number("numIndexesAfter")).map(|(before, after)| before != after))
}

/// Drops stored indexes, by one command, which drops all or none; one that is gone already is no
/// error. Where one is, or the server takes one name only, they are dropped in their order.
pub(crate) async fn drop_stored(server: &Server, ns: &Namespace, names: &[String]) -> Result<()> {
    // Counted: an index by which the server removes documents leaves no trace of having been.
    let drop_named = |index: Bson| server.run_directly(&ns.db, doc! {"dropIndexes": &ns.coll, "index": index});
    if names.len() > 1 {
        match drop_named(names.to_vec().into()).await {
            Err(error) if error.code().is_some_and(|code| ONE_BY_ONE.contains(&code)) => {}
            other => return other.map(drop),
        }
    }
    for name in names {
        match drop_named(name.as_str().into()).await {
            Err(error) if error.code() == Some(NO_SUCH_INDEX) => {}
            other => drop(other?),
        }
    }
    Ok(())
}
