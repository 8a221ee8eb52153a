//! One command that is being carried out: what it says, and what it may use.

use bson::{Bson, Document, oid::ObjectId};
use mongotx::{
    Collection, Namespace, Session,
    guard::{explain_answer, guard_command},
    is_own_collection,
};

use super::{
    body::HandlerReply, generic::Generic, named_collections, read_concern::ValidatedRead, write_concern::WriteConcern,
};
use crate::{
    access::User,
    api::Api,
    connection::Connection,
    context::Context,
    failure::{Answer, Failure, RETRYABLE_WRITE_ERROR, codes},
    fields::{Fields, type_name},
    reply::Reply,
    session::{
        info::Mode,
        labels::{add_to_reply, is_retriable},
        retry::Retry,
    },
    upstream::Lane,
};

/// A command that is being carried out.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a Context,
    pub(crate) connection: &'a Connection,
    pub(crate) db: &'a str,
    pub(crate) name: &'a str,
    /// Fields of the command itself; the first one is its name.
    pub(crate) body: Document,
    pub(crate) generic: &'a Generic,
    /// Place of the command in API version 1.
    pub(crate) api: Api,
    pub(crate) mode: &'a Mode,
    /// User of the command, where users log in.
    pub(crate) user: Option<&'a User>,
    /// The transaction that it is part of.
    pub(crate) session: Option<&'a mut Session>,
    /// The collections that the transaction has made.
    pub(crate) made: Option<&'a mut Vec<Namespace>>,
    /// Results of its statements that were done before, if it is a retryable write.
    pub(crate) retry: Option<&'a mut Retry>,
    /// The validated read that it is, if it is one: `session` is then its own, not the client's.
    pub(crate) validated: Option<ValidatedRead>,
    /// True if it writes, and has a write concern.
    pub(crate) has_concern: bool,
    /// True if a statement of it was refused although the command was answered: that ends a
    /// transaction.
    pub(crate) is_refused: bool,
}

/// An action of the library, in the call's transaction if there is one.
macro_rules! within {
    ($call:expr, $action:expr) => {{
        let action = $action;
        match $call.session.as_deref_mut() {
            Some(session) => action.session(session),
            None => action,
        }
    }};
}
pub(crate) use within;

/// An action of the library with those of these options that the command has.
macro_rules! with_options {
    ($action:expr, $($option:ident: $value:expr),+ $(,)?) => {{
        let mut action = $action;
        $(if let Some(value) = $value {
            action = action.$option(value);
        })+
        action
    }};
}
pub(crate) use with_options;

impl Call<'_> {
    /// The fields, as a part that has this name in errors, without the first one, which names the
    /// command.
    pub(crate) fn fields(&mut self, name: &str) -> Fields {
        self.body.remove(self.name);
        Fields::new(name, std::mem::take(&mut self.body))
    }

    /// # Errors
    /// 323 for a field that is not in the API version that the client keeps to.
    pub(crate) fn check_stable(&self) -> Answer<()> {
        self.generic.api.check_fields(self.api, self.name, &self.body)
    }

    /// Returns true if the command is a statement of a transaction of the client's. (A write may
    /// have a transaction of its own.)
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.mode.transaction().is_some()
    }

    /// Notes that all that was sent is answered, or noted as unknown: what a retryable write
    /// remembers is complete.
    pub(crate) fn is_answered(&mut self) {
        if let Some(retry) = self.retry.as_deref_mut() {
            retry.ends();
        }
    }

    /// The server process that the command is sent to, if its write concern is about that.
    pub(crate) fn process(&self) -> Option<ObjectId> {
        if self.has_concern { self.context.client.server_process() } else { None }
    }

    /// Waits for what the write concern demands besides, and adds a `writeConcernError` for what
    /// could not be met. A write within a transaction waits when that is committed. `process`: as
    /// [`Call::process`] was before anything was sent.
    pub(crate) async fn await_concern(&self, made: HandlerReply, process: Option<ObjectId>) -> HandlerReply {
        let concern = self.generic.write.as_ref().filter(|_| self.has_concern && self.session.is_none());
        let Some(concern) = concern.filter(|_| made.may_miss_concern()) else { return made };
        let (context, connection) = (self.context, self.connection);
        let missed = match &made {
            HandlerReply::Body(_) => concern.missed_by_write(context, connection, process).await,
            HandlerReply::Server(_) => concern.missed(context, connection).await,
        };
        made.with_concern_error(missed, self.mode)
    }

    /// The collection that the first field names.
    ///
    /// # Errors
    /// 2 and 73, as the server; 13 for what is MongoTx's own.
    pub(crate) fn namespace(&self) -> Answer<Namespace> {
        self.namespace_of(self.body.get(self.name).unwrap_or(&Bson::Null))
    }

    /// The collection that a value names.
    ///
    /// # Errors
    /// As [`Call::namespace`].
    pub(crate) fn namespace_of(&self, value: &Bson) -> Answer<Namespace> {
        let Bson::String(name) = value else {
            let message = format!("collection name has invalid type {}", type_name(value));
            return Err(Failure::new(codes::BAD_VALUE, message));
        };
        namespace_of(self.context, self.db, name)
    }

    /// Checks the collections that a pipeline names.
    ///
    /// # Errors
    /// 13 for what is MongoTx's own.
    pub(crate) fn check_named_collections(&self, pipeline: Option<&Bson>) -> Answer<()> {
        let named = named_collections::of_pipeline(pipeline);
        named.iter().try_for_each(|named| refuse_own(self.context, named.db.unwrap_or(self.db), named.collection))
    }

    /// As [`Call::check_named_collections`], of the definition of a view.
    ///
    /// # Errors
    /// As [`Call::check_named_collections`].
    pub(crate) fn check_view(&self, options: &Document) -> Answer<()> {
        if let Ok(on) = options.get_str("viewOn") {
            refuse_own(self.context, self.db, on)?;
        }
        self.check_named_collections(options.get("pipeline"))
    }

    /// Digest of the user in the keys of sessions and on cursors; empty without login.
    pub(crate) fn user_digest(&self) -> &[u8] {
        self.user.map_or(&[], |user| &user.digest)
    }

    /// The library's handle on a collection.
    pub(crate) fn collection<T>(&self, namespace: &Namespace) -> Collection<T> {
        self.context.client.database(&namespace.db).collection(&namespace.coll)
    }

    /// A write to a collection in which nothing is ever pending goes to the server as it is: there
    /// MongoTx has nothing to add, and could not run it as a transaction. Only reserved fields are
    /// not stored there either. The server gets it without its number, so what is made once, and
    /// what may be sent again, is decided here.
    pub(crate) async fn write_plainly(&mut self, namespace: &Namespace) -> Answer<Option<Reply>> {
        if self.is_in_transaction()
            || self.context.client.cannot_lock(namespace).await.map_err(Failure::from)?.is_none()
        {
            return Ok(None);
        }
        if let Some(before) = self.retry.as_deref().and_then(Retry::whole) {
            return before.map(Some);
        }
        guard_command(self.name, &mut self.body).map_err(Failure::from)?;
        let concern = WriteConcern::to_send(self.generic.write.as_ref(), &self.context.client);
        self.body.extend(concern.map(|concern| ("writeConcern".to_owned(), concern.into())));
        let has_several = has_several(&self.body);
        let sent = self.send_on().await;
        let reply = self.remember(sent, has_several)?;
        if reply.is_ok() && !matches!(reply.body().get("writeErrors"), Ok(Some(_))) {
            return Ok(Some(reply));
        }
        let mut answer = Document::try_from(reply.body()).map_err(mongotx::Error::from)?;
        explain_answer(&mut answer);
        Ok(Some(answer.into()))
    }

    /// Notes the answer to a write that the server got as it came, if the write may be made, and
    /// labels what a driver may send again: what was not made, and what is remembered.
    fn remember(&mut self, sent: Answer<Reply>, has_several: bool) -> Answer<Reply> {
        let may_be_made = match &sent {
            // Of several statements the first may be made when the server gives the command up.
            Ok(reply) => reply.is_ok() || has_several,
            Err(failure) => !failure.is_unsent,
        };
        if let Some(retry) = self.retry.as_deref_mut().filter(|_| may_be_made) {
            retry.note_whole(sent.clone());
        }
        // A write that is recorded in the store is not remembered here.
        let is_remembered = self.session.is_none();
        match sent {
            Ok(reply) if reply.is_ok() || !may_be_made => Ok(add_to_reply(reply, self.mode)),
            Err(failure) if (is_remembered || !may_be_made) && is_retriable(failure.code.into(), self.mode) => {
                Err(failure.labelled(RETRYABLE_WRITE_ERROR))
            }
            sent => sent,
        }
    }

    /// Sends the command on as it is, and returns the server's answer.
    pub(crate) async fn send_on(&mut self) -> Answer<Reply> {
        self.send_on_by(Lane::Clients).await
    }

    /// As [`Call::send_on`], over the connections of this lane.
    pub(crate) async fn send_on_by(&mut self, lane: Lane) -> Answer<Reply> {
        let mut command = std::mem::take(&mut self.body);
        command.extend(self.generic.comment.clone().map(|comment| ("comment".to_owned(), comment)));
        Ok(self.context.upstream.run_document_on(lane, self.db, &command).await?)
    }
}

/// Returns true if a write has more than one statement.
fn has_several(write: &Document) -> bool {
    let lists = ["documents", "updates", "deletes"].into_iter().filter_map(|list| write.get_array(list).ok());
    lists.map(Vec::len).sum::<usize>() > 1
}

/// The collection of this name that clients may use.
///
/// # Errors
/// 73, as the server; 13 for what is MongoTx's own.
pub(crate) fn namespace_of(context: &Context, db: &str, name: &str) -> Answer<Namespace> {
    let full = format!("{db}.{name}");
    if name.is_empty() || name.starts_with('.') || name.contains('\0') {
        return Err(Failure::new(codes::INVALID_NAMESPACE, format!("Invalid namespace specified '{full}'")));
    }
    let namespace = Namespace::parse_namespace(&full)
        .ok_or_else(|| Failure::new(codes::INVALID_NAMESPACE, format!("Invalid namespace specified '{full}'")))?;
    refuse_own(context, db, name)?;
    Ok(namespace)
}

/// # Errors
/// 13 for a collection that is MongoTx's own.
fn refuse_own(context: &Context, db: &str, name: &str) -> Answer<()> {
    if db != context.options.client.tx_database || !is_own_collection(name) {
        return Ok(());
    }
    let message = format!("not authorized on {db}.{name}: it holds MongoTx's own records");
    Err(Failure::new(codes::UNAUTHORIZED, message))
}
