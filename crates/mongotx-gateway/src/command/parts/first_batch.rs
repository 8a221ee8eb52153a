//! A query's first documents and its cursor. A validated read (`run/validated_read`) is read to its
//! end first, and validated before any of it is answered.

use std::time::Instant;

use bson::{Document, Timestamp, rawdoc};
use mongotx::Namespace;

use super::{
    body::Body,
    call::Call,
    read_concern::{ReadLevel, ValidatedRead},
};
use crate::{
    cursor::{FIRST_BATCH, GatheringLimits, OpenCursor, Owner},
    failure::Answer,
    fields::Fields,
};

/// Requirements for a first batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstBatch {
    /// Number of documents in the batch; `None`: the usual number.
    pub(crate) size: Option<usize>,
    /// No other batch will follow.
    pub(crate) is_only: bool,
    /// True if the cursor ends when it is not used for a while.
    pub(crate) expires: bool,
}

impl FirstBatch {
    /// Parses the option `cursor: {batchSize: …}`.
    pub(crate) fn of_cursor(command: &str, cursor: Option<Document>) -> Answer<Self> {
        let mut cursor = Fields::new(&format!("{command}.cursor"), cursor.unwrap_or_default());
        let size = cursor.natural("batchSize")?.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        cursor.finish()?;
        Ok(Self { size, is_only: false, expires: true })
    }

    /// Number of documents that the server is to send at first; `None`: the usual number. A batch
    /// of none needs no more than one, which waits for the next command.
    pub(crate) fn to_fetch(self) -> Option<u32> {
        self.size.and_then(|size| u32::try_from(size.max(1)).ok())
    }
}

impl Call<'_> {
    /// The reply with a query's first documents; what is left stays open under the session and the
    /// transaction.
    pub(crate) async fn first_batch(
        &mut self,
        namespace: Namespace,
        open: OpenCursor,
        first: FirstBatch,
    ) -> Answer<Body> {
        let mut open = self.gather(open, first).await?;
        open.moment = self.validate().await?;
        let moment = open.moment;
        let batch = open.batch(Some(first.size.unwrap_or(FIRST_BATCH))).await?;
        let ns = namespace.to_string();
        let id = if batch.is_last || first.is_only {
            0
        } else {
            open.keep(&self.context.memory)?;
            let user = self.user_digest().to_vec();
            let (lsid, number) = (self.mode.lsid().cloned(), self.mode.transaction());
            let owner = Owner { namespace, user, lsid, number, api: self.generic.api };
            // The rest of a validated read takes the gateway's memory, so its cursor always
            // expires.
            let expires = first.expires || self.validated.is_some();
            self.context.tx.cursors.add(owner, open, expires, Instant::now())?
        };
        Ok(Body::of_cursor(rawdoc! {"firstBatch": batch.documents, "id": id, "ns": ns}, moment))
    }

    /// The whole answer of a validated read, in memory. Where there is to be only one batch, no
    /// more than that is read.
    ///
    /// # Errors
    /// 146 when the answer is larger than the limits.
    async fn gather(&self, open: OpenCursor, first: FirstBatch) -> Answer<OpenCursor> {
        let Some(ValidatedRead { level, .. }) = self.validated else { return Ok(open) };
        let limits = self.context.tx.limits();
        let room = GatheringLimits {
            what: format!("a read with read concern '{}' outside transactions", level.name()),
            documents: limits.validated_read_documents,
            bytes: limits.validated_read_bytes,
        };
        let most = first.is_only.then(|| first.size.unwrap_or(FIRST_BATCH));
        open.gathered(most, room, self.context.memory.hold()).await
    }

    /// Validates a validated read. Answers the moment of a read at `snapshot`, which drivers send
    /// with the reads that follow. Other commands are validated elsewhere, or not at all.
    ///
    /// # Errors
    /// 112 when something has changed since it was read.
    pub(crate) async fn validate(&mut self) -> Answer<Option<Timestamp>> {
        let Some(ValidatedRead { level, moment }) = self.validated else { return Ok(None) };
        if let Some(session) = self.session.as_deref_mut() {
            session.commit().await?;
        }
        Ok((level == ReadLevel::Snapshot).then_some(moment))
    }
}
