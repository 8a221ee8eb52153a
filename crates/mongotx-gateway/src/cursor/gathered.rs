//! An answer that was read to its end before any of it is sent, and what it may take of the
//! gateway's memory.

use bson::RawDocumentBuf;

use crate::{
    failure::{Answer, Failure, codes},
    memory::HeldMemory,
};

/// Limits of one answer that is gathered.
pub(crate) struct GatheringLimits {
    /// The reads for which there is this room, for errors.
    pub(crate) what: String,
    /// The most documents that it may have.
    pub(crate) documents: usize,
    /// The most bytes that its documents may have.
    pub(crate) bytes: usize,
}

/// Documents that are here already and wait to be sent, counted as held until they are.
pub(crate) struct Gathered {
    documents: std::vec::IntoIter<RawDocumentBuf>,
    held: HeldMemory,
}

/// Documents that are being gathered.
pub(super) struct Gathering {
    room: GatheringLimits,
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
    held: HeldMemory,
}

impl Gathering {
    /// Nothing is gathered yet. `held` counts what will be.
    pub(super) fn new(room: GatheringLimits, held: HeldMemory) -> Self {
        Self { room, documents: Vec::new(), bytes: 0, held }
    }

    pub(super) fn count(&self) -> usize {
        self.documents.len()
    }

    /// # Errors
    /// 146 when there is no room for one more, neither in the answer nor in the gateway's memory.
    pub(super) fn add(&mut self, document: RawDocumentBuf) -> Answer<()> {
        let GatheringLimits { what, documents, bytes } = &self.room;
        let too_much = |message: String| Err(Failure::new(codes::EXCEEDED_MEMORY_LIMIT, message));
        let hint = "all of its answer is kept until it is fetched: ask for less at a time, or read in a transaction";
        self.bytes += document.as_bytes().len();
        if self.documents.len() >= *documents {
            return too_much(format!(
                "{what} answers at most {documents} documents (--max-transaction-documents), because {hint}"
            ));
        }
        if self.bytes > *bytes {
            return too_much(format!(
                "{what} answers at most {bytes} bytes of documents (--max-snapshot-read-mib), because {hint}"
            ));
        }
        if let Err(full) = self.held.grow_kept(size(&document)) {
            let limit = full.limit_bytes;
            return too_much(format!(
                "the gateway has no memory left to keep the answer of {what}: {limit} bytes, the limit for it (half of --max-memory-mib), are held; try again"
            ));
        }
        self.documents.push(document);
        Ok(())
    }

    pub(super) fn finish(self) -> Gathered {
        Gathered { documents: self.documents.into_iter(), held: self.held }
    }
}

impl Gathered {
    /// The next document; it is the caller's to count.
    pub(super) fn next(&mut self) -> Option<RawDocumentBuf> {
        let document = self.documents.next()?;
        self.held.shrink(size(&document));
        Some(document)
    }
}

/// Memory that a document takes: small ones take more than their bytes.
fn size(document: &RawDocumentBuf) -> usize {
    size_of::<RawDocumentBuf>() + document.as_bytes().len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::rawdoc;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::memory::Memory;

    /// `{n: 1}` is so long.
    const BYTES: usize = 12;

    fn filled(documents: usize, bytes: usize, memory_bytes: usize) -> Failure {
        let room = GatheringLimits { what: "a read".to_owned(), documents, bytes };
        let mut gathering = Gathering::new(room, Memory::new(memory_bytes, Gauge::default()).hold());
        loop {
            if let Err(failure) = gathering.add(rawdoc! {"n": 1}) {
                return failure;
            }
        }
    }

    #[test]
    fn each_limit_is_refused_by_its_name() {
        for (failure, words) in [
            (filled(3, 1_000, 10_000), "at most 3 documents"),
            (filled(1_000, 3 * BYTES, 10_000), "at most 36 bytes"),
            (filled(1_000, 1_000, 500), "250 bytes"),
        ] {
            assert_eq!(failure.code, 146);
            assert!(failure.message.contains(words) && failure.message.contains("a read"), "{}", failure.message);
        }
    }

    #[test]
    fn what_was_sent_or_dropped_is_given_back() {
        let shown = Gauge::default();
        let memory = Memory::new(1_000, shown.clone());
        let room = GatheringLimits { what: "a read".to_owned(), documents: 2, bytes: 2 * BYTES };
        let mut gathering = Gathering::new(room, memory.hold());
        gathering.add(rawdoc! {"n": 1}).unwrap();
        gathering.add(rawdoc! {"n": 2}).unwrap();
        let both = shown.get();
        let mut gathered = gathering.finish();
        assert_eq!(gathered.next(), Some(rawdoc! {"n": 1}));
        assert_eq!(shown.get() * 2, both);
        drop(gathered);
        assert_eq!(shown.get(), 0);
    }
}
