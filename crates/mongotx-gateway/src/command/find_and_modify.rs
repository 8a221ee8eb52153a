//! The command `findAndModify`, also as `findandmodify`: parses it, runs it by the library, and
//! makes the reply of what was found.

use bson::{Bson, Document, RawDocumentBuf, doc, raw::cstr};
use mongotx::{Collection, FindAndModifyResult, Namespace, ReturnDocument};

use super::parts::{
    body::{Body, HandlerReply},
    call::{Call, with_options, within},
    modification::Update,
    writes::note_unknown,
};
use crate::{
    failure::{Answer, Failure, codes},
    fields::Fields,
    session::retry::StatementResult,
};

/// Arguments of the command, without the collection.
pub(super) struct FindAndModify {
    filter: Document,
    sort: Option<Document>,
    projection: Option<Document>,
    /// The update to apply. `None`: remove the document.
    update: Option<Update>,
    upsert: bool,
    new: bool,
    array_filters: Option<Vec<Document>>,
    collation: Option<Document>,
    hint: Option<Bson>,
    variables: Option<Document>,
}

impl FindAndModify {
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let remove = fields.safe_flag("remove")?.unwrap_or(false);
        let update = fields.any("update").map(Update::parse).transpose()?;
        let projection = fields.filled("fields")?;
        let parsed = Self {
            filter: fields.document("query")?.unwrap_or_default(),
            sort: fields.filled("sort")?,
            projection,
            upsert: fields.safe_flag("upsert")?.unwrap_or(false),
            new: fields.safe_flag("new")?.unwrap_or(false),
            array_filters: fields.documents("arrayFilters")?,
            collation: fields.filled("collation")?,
            hint: fields.hint()?,
            variables: fields.filled("let")?,
            update,
        };
        // Heeded before the handler runs.
        fields.safe_flag("bypassDocumentValidation")?;
        fields.ignore(&["stmtId", "sampleId"]);
        fields.finish()?;
        parsed.check(remove)?;
        Ok(parsed)
    }

    fn check(&self, remove: bool) -> Answer<()> {
        let refused = |message: &str| Err(Failure::new(codes::FAILED_TO_PARSE, message));
        match &self.update {
            Some(_) if remove => refused("Cannot specify both an update and remove=true"),
            None if !remove => refused("Either an update or remove=true must be specified"),
            None if self.upsert => refused("Cannot specify both upsert=true and remove=true"),
            None if self.new => {
                refused("Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
            }
            None if self.array_filters.is_some() => refused("Cannot specify arrayFilters and remove=true"),
            Some(update) if self.array_filters.is_some() && update.is_pipeline() => {
                refused("Cannot specify 'arrayFilters' and a pipeline update")
            }
            _ => Ok(()),
        }
    }

    async fn modify(&self, call: &mut Call<'_>, namespace: &Namespace) -> mongotx::Result<FindAndModifyResult> {
        let collection = call.collection::<Document>(namespace);
        match &self.update {
            None => self.remove(call, &collection).await,
            Some(update) => self.update(call, &collection, update).await,
        }
    }

    async fn update(
        &self,
        call: &mut Call<'_>,
        collection: &Collection<Document>,
        update: &Update,
    ) -> mongotx::Result<FindAndModifyResult> {
        let filter = self.filter.clone();
        let shown = if self.new { ReturnDocument::After } else { ReturnDocument::Before };
        let action = match update {
            Update::Change(change) => collection.find_one_and_update(filter, change.clone()),
            Update::Replacement(document) => collection.find_one_and_replace(filter, document),
        }
        .upsert(self.upsert)
        .return_document(shown);
        let action = with_options!(
            action,
            sort: self.sort.clone(),
            projection: self.projection.clone(),
            array_filters: self.array_filters.clone(),
            collation: self.collation.clone(),
            hint: self.hint.clone(),
            let_vars: self.variables.clone(),
        );
        within!(call, action).in_full().await
    }

    async fn remove(
        &self,
        call: &mut Call<'_>,
        collection: &Collection<Document>,
    ) -> mongotx::Result<FindAndModifyResult> {
        let action = with_options!(
            collection.find_one_and_delete(self.filter.clone()),
            sort: self.sort.clone(),
            projection: self.projection.clone(),
            collation: self.collation.clone(),
            hint: self.hint.clone(),
            let_vars: self.variables.clone(),
        );
        within!(call, action).in_full().await
    }

    fn reply(&self, done: FindAndModifyResult) -> Document {
        let n = i32::from(done.matched || done.upserted_id.is_some());
        let mut last = doc! {"n": n};
        if self.update.is_some() {
            last.insert("updatedExisting", done.matched);
        }
        if let Some(id) = done.upserted_id {
            last.insert("upserted", id);
        }
        doc! {"lastErrorObject": last, "value": done.value.map_or(Bson::Null, Bson::Document)}
    }
}

pub(super) async fn answer_find_and_modify(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let namespace = call.namespace()?;
    if let Some(reply) = call.write_plainly(&namespace).await? {
        return Ok(reply.into());
    }
    let command = FindAndModify::parse(call.fields("findAndModify"))?;
    let before = call.retry.as_deref().and_then(|retry| retry.done(0));
    let (reply, concern_error) = match before {
        Some(StatementResult::Unknown(failure)) => return Err(failure),
        Some(StatementResult::Modify(mut reply)) => {
            reply.append(cstr!("retriedStmtId"), 0);
            (reply, None)
        }
        _ => modified(call, &namespace, &command).await?,
    };
    Ok(Body::from(reply).with_concern_error(concern_error, call.mode).into())
}

/// The reply, and the `writeConcernError` of a write that the server may lose again.
async fn modified(
    call: &mut Call<'_>,
    namespace: &Namespace,
    command: &FindAndModify,
) -> Answer<(RawDocumentBuf, Option<Document>)> {
    match command.modify(call, namespace).await {
        Ok(done) => {
            let reply = to_raw(&command.reply(done))?;
            if let Some(retry) = call.retry.as_deref_mut() {
                retry.note(0, StatementResult::Modify(reply.clone()));
            }
            Ok((reply, None))
        }
        Err(error) => {
            let failure = Failure::from(&error);
            note_unknown(call, [0], &error, &failure);
            let Some(done) = error.unreplicated_answer() else { return Err(failure) };
            let shown = done.answer.iter().filter(|(field, _)| ["lastErrorObject", "value"].contains(&field.as_str()));
            let shown: Document = shown.map(|(field, value)| (field.clone(), value.clone())).collect();
            Ok((to_raw(&shown)?, Some(done.concern_error.clone())))
        }
    }
}

/// The reply as bytes. What the server has answered can always be written again.
fn to_raw(reply: &Document) -> Answer<RawDocumentBuf> {
    Ok(RawDocumentBuf::try_from(reply).map_err(mongotx::Error::from)?)
}
