//! The questions which other documents have the keys of some documents in their safe versions: as
//! conditions of a query, or as statements behind a write. Pure: nothing is sent.

use bson::{Document, doc};
use protocol::TxId;
use sd2v::{index::Unique, statement};

/// Limit of statements behind one that places.
const QUESTIONS_BEHIND: usize = 4;
/// Limit of conditions in one check: those of documents whose keys cannot be put together.
const CONDITIONS: usize = 200;

/// A query for documents that have one of some keys in their safe version.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) condition: Document,
    pub(crate) collation: Option<Document>,
}

/// The conditions that step 2 of [`super`] checks for all of these documents: as few as possible.
pub(crate) fn questions(uniques: &[&Unique], documents: &[&Document]) -> Vec<Question> {
    let (plain, collated): (Vec<&Unique>, Vec<&Unique>) =
        uniques.iter().copied().partition(|unique| unique.collation.is_none());
    let mut questions = Vec::new();
    for together in [plain].into_iter().chain(collated.into_iter().map(|unique| vec![unique])) {
        let collation = together.first().and_then(|unique| unique.collation.clone());
        let asked: Vec<Document> = together.iter().flat_map(|unique| unique.rivals_of_any(documents)).collect();
        questions.extend(asked.chunks(CONDITIONS).map(|some| {
            let condition = match some {
                [only] => only.clone(),
                several => doc! {"$or": several.to_vec()},
            };
            Question { condition, collation: collation.clone() }
        }));
    }
    questions
}

/// Step 2 of [`super`] as statements that stand behind the one that places: each fails where
/// another document, not held by the transaction, has one of the keys in its safe version.
/// `fields`: these fields of the document as the write leaves it, if that is known. `None`: that is
/// not, or it takes too many statements.
pub(crate) fn questions_behind(
    uniques: &[Unique],
    fields: impl Fn(&[&str]) -> Option<Document>,
    me: TxId,
) -> Option<Vec<Document>> {
    let asked = asked_behind(uniques, fields)?;
    let statement = |Question { condition, collation }| {
        let mut statement = statement::refuse_others(condition, me);
        statement.extend(collation.map(|collation| ("collation".to_owned(), collation.into())));
        statement
    };
    Some(asked.into_iter().map(statement).collect())
}

/// Returns true if [`questions_behind`] answers some, or that none are needed.
pub(crate) fn can_be_asked_behind(uniques: &[Unique], fields: impl Fn(&[&str]) -> Option<Document>) -> bool {
    asked_behind(uniques, fields).is_some()
}

fn asked_behind(uniques: &[Unique], fields: impl Fn(&[&str]) -> Option<Document>) -> Option<Vec<Question>> {
    let all: Vec<&str> = uniques.iter().flat_map(|unique| unique.key.keys()).map(String::as_str).collect();
    let document = if all.is_empty() { Document::new() } else { fields(&all)? };
    let asked = questions(&uniques.iter().collect::<Vec<_>>(), &[&document]);
    (asked.len() <= QUESTIONS_BEHIND).then_some(asked)
}
