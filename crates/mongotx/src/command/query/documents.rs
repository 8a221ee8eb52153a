//! The documents that answer a query: those at hand, then those of a cursor, without reserved
//! fields. Each is shown to the witness of a validation on its way. Which documents they are is
//! decided in `find` and its neighbours.

use std::collections::VecDeque;

use bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::{
    coordinator::{
        read_set::{seen_keys::Spotter, witness::Witness},
        server::stream::Stream,
    },
    document,
    error::Result,
};

/// The answer of a query: documents at hand, then those of a cursor, stripped of what is MongoTx's.
#[derive(Default)]
pub(crate) struct Documents {
    ready: VecDeque<RawDocumentBuf>,
    live: Option<Stream>,
    /// Gets every document of the answer, to validate it later.
    witness: Option<Witness>,
    /// Notes the addresses of documents by their keys.
    spotter: Option<Spotter>,
}

impl Documents {
    pub(crate) fn at_hand(documents: impl IntoIterator<Item = RawDocumentBuf>) -> Self {
        Self { ready: documents.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn streaming(cursor: Stream) -> Self {
        Self { live: Some(cursor), ..Self::default() }
    }

    /// The same documents, each of which the witness gets as the application gets it.
    pub(crate) fn witnessed(self, witness: Witness) -> Self {
        Self { witness: Some(witness), ..self }
    }

    /// The same documents, each of which the spotter gets as the application gets it.
    pub(crate) fn spotted(self, spotter: Option<Spotter>) -> Self {
        Self { spotter, ..self }
    }

    /// The first document that is left, as the server sent it. Where that is possible it stays in
    /// the array that the server has sent it in.
    pub(crate) async fn peek(&mut self) -> Result<Option<&RawDocument>> {
        if self.ready.is_empty()
            && let Some(live) = self.live.as_mut()
        {
            if matches!(live, Stream::Lean(_)) {
                return live.peek().await;
            }
            self.ready.extend(live.next().await?);
        }
        Ok(self.ready.front().map(AsRef::as_ref))
    }

    /// The first document that is left, if it is such a one, as the server sent it.
    pub(crate) async fn next_if(&mut self, wanted: fn(&RawDocument) -> bool) -> Result<Option<RawDocumentBuf>> {
        if !self.peek().await?.is_some_and(wanted) {
            return Ok(None);
        }
        match (self.ready.pop_front(), self.live.as_mut()) {
            (None, Some(live)) => live.next().await,
            (ready, _) => Ok(ready),
        }
    }

    /// The documents that the server sends together next, as the array that it has sent, where they
    /// are no more than `most` and no longer than `most_bytes` together. `None`: there are none, or
    /// they have to be read one by one.
    pub(crate) async fn next_batch(&mut self, most: usize, most_bytes: usize) -> Result<Option<RawArrayBuf>> {
        if self.witness.is_some() || self.spotter.is_some() || !self.ready.is_empty() {
            return Ok(None);
        }
        let Some(live) = self.live.as_mut() else { return Ok(None) };
        live.peek().await?;
        Ok(live.take_batch(|array, count| {
            count <= most && array.as_bytes().len() <= most_bytes && document::have_nothing_reserved(array)
        }))
    }

    /// Sets the number of documents that the server sends together from now on; 0: it decides.
    pub(crate) fn set_batch_size(&mut self, size: u32) {
        if let Some(live) = &mut self.live {
            live.set_batch_size(size);
        }
    }

    /// Bytes of the documents that are here and were not taken yet.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let at_hand: usize = self.ready.iter().map(|document| document.as_bytes().len()).sum();
        at_hand + self.live.as_ref().map_or(0, Stream::buffered_bytes)
    }

    /// Returns true if it is known that nothing is left.
    fn is_over(&self) -> bool {
        self.ready.is_empty() && self.live.as_ref().is_none_or(Stream::is_over)
    }

    /// The next document as the application has it, as bytes.
    pub(crate) async fn next(&mut self) -> Option<Result<RawDocumentBuf>> {
        let next = match (self.ready.pop_front(), self.live.as_mut()) {
            (Some(ready), _) => Some(Ok(ready)),
            (None, Some(live)) => live.next().await.transpose(),
            (None, None) => None,
        };
        let next = next.map(|next| next.and_then(document::stripped));
        if let (Some(spotter), Some(Ok(document))) = (&self.spotter, &next) {
            spotter.saw(document);
        }
        match (&self.witness, &next) {
            (Some(witness), Some(Ok(document))) => {
                witness.saw(document);
                // A caller that wants one document does not ask for another one.
                if self.is_over() {
                    witness.ended();
                }
            }
            (Some(witness), None) => witness.ended(),
            _ => {}
        }
        next
    }

    /// The next document as a `T`.
    pub(crate) async fn next_as<T: DeserializeOwned + 'static>(&mut self) -> Option<Result<T>> {
        Some(self.next().await?.and_then(document::decode))
    }

    /// The remaining documents, at most `limit`.
    pub(crate) async fn all(self, limit: usize) -> Result<Vec<Document>> {
        self.all_raw(limit).await?.iter().map(|raw| document::parse(raw)).collect()
    }

    /// The remaining documents as bytes, at most `limit`.
    pub(crate) async fn all_raw(mut self, limit: usize) -> Result<Vec<RawDocumentBuf>> {
        let mut documents = Vec::new();
        while documents.len() < limit
            && let Some(next) = self.next().await
        {
            documents.push(next?);
        }
        Ok(documents)
    }
}
