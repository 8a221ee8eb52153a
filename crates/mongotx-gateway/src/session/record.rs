//! The results of a session's newest retryable write, in the form that is stored for other
//! gateways: see `docs/decisions/0011-durable-retryable-writes.md`. Pure: BSON in, BSON out.
//!
//! ```text
//! {_id: <session>, n: <number>, v: <version>, done: <statements>, at: <date>}
//! ```
//!
//! `done` is BSON in a binary value, `{s: [{i: <first statement>, k: <how many>, …}, …]}`, because
//! replies may have field names, and be nested as deeply, as no stored document may. Equal results
//! of statements in a row are one entry.

use bson::{Binary, Bson, Document, RawDocumentBuf, doc, spec::BinarySubtype};

use super::{
    Lsid,
    retry::{MOST_STATEMENTS, Retry, StatementResult},
};
use crate::failure::{Answer, Failure, codes};

/// The most that the results of one write may take. While it is being replaced, a stored document
/// has both versions.
pub(crate) const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The stored record of a session.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The newest number; `None` where there is no record.
    pub(crate) number: Option<i64>,
    /// Number of times that it was written.
    pub(crate) version: i64,
    /// Results of the write with the newest number.
    pub(crate) done: Retry,
}

/// The session's `_id`: its UUID, then the digest of its user.
pub(crate) fn id_of(lsid: &Lsid) -> Bson {
    let bytes = [lsid.id.as_slice(), &lsid.user].concat();
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes })
}

impl Record {
    /// # Errors
    /// 1 for what no gateway has stored.
    pub(crate) fn decode(stored: &Document) -> Answer<Self> {
        let malformed = || Failure::new(codes::INTERNAL_ERROR, "the record of the session's last write is malformed");
        let done = stored.get_binary_generic("done").map_err(|_| malformed())?;
        let done = Document::from_reader(done.as_slice()).map_err(|_| malformed())?;
        let mut retry = Retry::default();
        for entry in done.get_array("s").map_err(|_| malformed())? {
            note(&mut retry, entry).ok_or_else(malformed)?;
        }
        Ok(Self {
            number: Some(stored.get_i64("n").map_err(|_| malformed())?),
            version: stored.get_i64("v").map_err(|_| malformed())?,
            done: retry,
        })
    }

    /// The condition that the record is still this one.
    pub(crate) fn filter(&self, lsid: &Lsid) -> Document {
        match self.number {
            Some(number) => doc! {"_id": id_of(lsid), "n": number, "v": self.version},
            // Inserted where there is none; where there is one, its `_id` is a duplicate.
            None => doc! {"_id": id_of(lsid), "v": 0_i64},
        }
    }

    /// The update that makes it the record of this number.
    ///
    /// # Errors
    /// 10334 when the results are longer than the limit.
    pub(crate) fn update(&self, number: i64, done: &Retry) -> Answer<Document> {
        let bytes = encode(done).and_then(|done| done.to_vec()).map_err(|error| {
            Failure::new(codes::INTERNAL_ERROR, format!("the results of the write are no BSON: {error}"))
        })?;
        if bytes.len() > MOST_BYTES {
            let message = format!(
                "the results of the write take {} bytes, and durable retryable writes keep at most {MOST_BYTES}: send it in parts, ask for fewer fields, or without retryWrites",
                bytes.len()
            );
            return Err(Failure::new(codes::OBJECT_TOO_LARGE, message));
        }
        let done = Binary { subtype: BinarySubtype::Generic, bytes };
        Ok(doc! {
            "$set": {"n": number, "v": self.version + 1, "done": done},
            "$currentDate": {"at": true},
        })
    }
}

fn encode(done: &Retry) -> bson::error::Result<Document> {
    let mut entries: Vec<Document> = Vec::new();
    let mut last: Option<(usize, &StatementResult)> = None;
    for (statement, done) in done.iter() {
        let goes_on = last.is_some_and(|(before, same)| before + 1 == statement && same == done && !is_single(done));
        match entries.last_mut().filter(|_| goes_on) {
            Some(entry) => {
                let count = entry.get_i64("k").unwrap_or(1);
                entry.insert("k", count + 1);
            }
            None => entries.push(entry_of(statement, done)?),
        }
        last = Some((statement, done));
    }
    Ok(doc! {"s": entries})
}

/// Returns true if the statement has an entry of its own; others share one.
fn is_single(done: &StatementResult) -> bool {
    matches!(done, StatementResult::Modify(_) | StatementResult::Update { upserted: Some(_), .. })
}

fn entry_of(statement: usize, done: &StatementResult) -> bson::error::Result<Document> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut entry = doc! {"i": number(statement as u64), "k": 1_i64};
    match done {
        StatementResult::Count(count) => {
            entry.insert("c", number(*count));
        }
        StatementResult::Update { matched, modified, upserted } => {
            entry.extend(doc! {"m": number(*matched), "d": number(*modified)});
            entry.extend(upserted.clone().map(|id| ("u".to_owned(), id)));
        }
        StatementResult::Modify(reply) => {
            entry.insert("r", Document::try_from(&**reply)?);
        }
        // Never stored: what is unknown was rolled back, or is found here.
        StatementResult::Unknown(_) => {}
    }
    Ok(entry)
}

fn note(retry: &mut Retry, entry: &Bson) -> Option<()> {
    let entry = entry.as_document()?;
    let number = |field: &str| entry.get_i64(field).ok().and_then(|n| u64::try_from(n).ok());
    let done = match entry.get_document("r") {
        Ok(reply) => StatementResult::Modify(RawDocumentBuf::try_from(reply).ok()?),
        Err(_) => match number("c") {
            Some(count) => StatementResult::Count(count),
            None => StatementResult::Update {
                matched: number("m")?,
                modified: number("d")?,
                upserted: entry.get("u").cloned(),
            },
        },
    };
    let first = usize::try_from(number("i")?).ok()?;
    let count = usize::try_from(number("k")?).ok().filter(|count| *count <= MOST_STATEMENTS)?;
    for statement in first..first.checked_add(count)? {
        retry.note(statement, done.clone());
    }
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn stored(done: &Retry) -> Document {
        let update = Record::default().update(7, done).unwrap();
        update.get_document("$set").unwrap().clone()
    }

    #[test]
    fn what_was_done_is_read_as_it_was_written() {
        let mut done = Retry::default();
        let update = |upserted| StatementResult::Update { matched: 1, modified: 0, upserted };
        for (statement, one) in [
            (0, StatementResult::Count(1)),
            (1, StatementResult::Count(1)),
            (3, StatementResult::Count(1)),
            (4, update(None)),
            (5, update(None)),
            (6, update(Some(doc! {"$odd": {"a.b": 1}}.into()))),
            (7, update(Some(Bson::Null))),
            (8, StatementResult::Modify(rawdoc! {"value": {"$x": 1, "": {"_unsafe": 2}}})),
        ] {
            done.note(statement, one);
        }
        let record = Record::decode(&stored(&done)).unwrap();
        assert_eq!((record.number, record.version), (Some(7), 1));
        assert_eq!(record.done, done);
    }

    #[test]
    fn a_hundred_thousand_equal_results_are_few_bytes() {
        let mut done = Retry::default();
        for statement in 0..100_000 {
            done.note(statement, StatementResult::Count(1));
        }
        let stored = stored(&done);
        assert!(stored.to_vec().unwrap().len() < 200);
        assert_eq!(Record::decode(&stored).unwrap().done, done);
    }

    #[test]
    fn more_than_the_limit_is_refused_by_name() {
        let mut done = Retry::default();
        done.note(0, StatementResult::Modify(rawdoc! {"value": {"text": "x".repeat(MOST_BYTES)}}));
        let refused = Record::default().update(1, &done).unwrap_err();
        assert_eq!(refused.code, 10_334);
        assert!(refused.message.contains("4194304"), "{}", refused.message);
    }

    #[test]
    fn what_no_gateway_has_stored_is_no_record() {
        let binary = |bytes: Vec<u8>| Binary { subtype: BinarySubtype::Generic, bytes };
        let done = |entries: Bson| binary(doc! {"s": entries}.to_vec().unwrap());
        for stored in [
            doc! {},
            doc! {"n": 1_i64, "v": 1_i64, "done": binary(vec![1, 2])},
            doc! {"n": 1_i64, "v": 1_i64, "done": done(Bson::from(1))},
            doc! {"n": 1_i64, "v": 1_i64, "done": done(vec![doc! {"i": 0_i64, "k": i64::MAX, "c": 1_i64}].into())},
            doc! {"n": 1_i64, "v": 1_i64, "done": done(vec![doc! {"i": -1_i64, "k": 1_i64, "c": 1_i64}].into())},
            doc! {"n": 1, "v": 1_i64, "done": done(Vec::<Bson>::new().into())},
        ] {
            assert_eq!(Record::decode(&stored).unwrap_err().code, 1, "{stored}");
        }
    }
}
