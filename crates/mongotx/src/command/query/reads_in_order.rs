//! Several reads that the server carries out in order: commands that are sent in one write, over a
//! connection of this library's own, or else one pipeline (`$unionWith` runs its pipeline after
//! what stands before it is exhausted). The pipeline costs the server about 1.4 times as much
//! (decision 0058).

use std::{collections::VecDeque, sync::Arc};

use bson::{Bson, Document, RawDocumentBuf, doc};

use crate::{
    coordinator::{
        Core,
        server::{live::LeadingWrite, stream::Stream},
        stamps::change_look::ChangeLook,
    },
    error::{Error, Result},
};

/// The most documents in the first batches of all answers.
const BATCH: i32 = 1_000;
/// The most commands that are sent together: all of their first batches are in memory at once.
const MOST_COMMANDS: usize = 32;
/// Time limit of the server for reads behind a write, in milliseconds.
const LONGEST_BEHIND_A_WRITE_MS: i32 = 200;
/// Field of an answer by a pipeline: the number of the part that the document belongs to.
const PART: &str = "p";
/// The document itself; without it, the probe has found something.
const DOCUMENT: &str = "d";

/// One read of the server, for one part.
pub(crate) struct ReadStep {
    part: usize,
    coll: String,
    kind: StepKind,
}

/// Kind of a read step: the probe before an answer, or the answer.
enum StepKind {
    /// A probe for a document that this filter matches.
    Probe(Document),
    /// The documents that these stages answer.
    Answer(Vec<Document>),
}

impl ReadStep {
    pub(crate) fn probe(part: usize, coll: &str, filter: Document) -> Self {
        Self { part, coll: coll.to_owned(), kind: StepKind::Probe(filter) }
    }

    pub(crate) fn answer(part: usize, coll: &str, stages: Vec<Document>) -> Self {
        Self { part, coll: coll.to_owned(), kind: StepKind::Answer(stages) }
    }

    /// The step as a `find`; `None`: it has stages that a `find` does not know, or understands
    /// otherwise.
    fn find(&self, batch: i32) -> Option<Document> {
        let stages = match &self.kind {
            StepKind::Probe(filter) => {
                let projection = doc! {"_id": 1};
                return Some(doc! {
                    "find": &self.coll, "filter": filter, "limit": 1, "singleBatch": true, "projection": projection,
                });
            }
            StepKind::Answer(stages) => stages,
        };
        let mut find = as_find(&self.coll, stages)?;
        find.insert("batchSize", batch);
        Some(find)
    }

    /// The stages of this part, in a pipeline for all parts.
    fn stages(self) -> (String, Vec<Document>) {
        let part = doc! {"$literal": self.part as i32};
        let stages = match self.kind {
            StepKind::Probe(filter) => {
                vec![doc! {"$match": filter}, doc! {"$limit": 1}, doc! {"$replaceWith": {PART: part}}]
            }
            StepKind::Answer(mut stages) => {
                stages.push(doc! {"$replaceWith": {PART: part, DOCUMENT: "$$ROOT"}});
                stages
            }
        };
        (self.coll, stages)
    }
}

/// The `find` that answers what these stages of a pipeline do; `None`: there is none.
pub(crate) fn as_find(coll: &str, stages: &[Document]) -> Option<Document> {
    // A `find` sorts, skips, limits and projects in this order.
    let mut left = FIND_ORDER.iter();
    let mut find = doc! {"find": coll};
    for stage in stages {
        let (name, value) = stage.iter().next().filter(|_| stage.len() == 1)?;
        let (_, option) = left.find(|(stage, _)| stage == name)?;
        if name == "$project" && !value.as_document().is_some_and(is_flags) {
            return None;
        }
        find.insert(*option, value.clone());
    }
    Some(find)
}

/// The stages that a `find` stands for, and its options for them.
const FIND_ORDER: [(&str, &str); 5] =
    [("$match", "filter"), ("$sort", "sort"), ("$skip", "skip"), ("$limit", "limit"), ("$project", "projection")];

/// Returns true if the projection says of fields whether they are shown, and nothing else.
pub(crate) fn is_flags(projection: &Document) -> bool {
    let is_flag = |value: &Bson| matches!(value, Bson::Boolean(_) | Bson::Int32(_) | Bson::Int64(_));
    projection.iter().all(|(name, value)| is_flag(value) && !name.contains('$'))
}

/// One pipeline for all steps.
fn pipeline(steps: Vec<ReadStep>) -> Document {
    let mut stages = steps.into_iter().map(ReadStep::stages);
    let (coll, mut pipeline) = stages.next().unwrap_or_default();
    pipeline.extend(stages.map(|(coll, pipeline)| doc! {"$unionWith": {"coll": coll, "pipeline": pipeline}}));
    doc! {"aggregate": coll, "pipeline": pipeline, "cursor": {"batchSize": BATCH}}
}

/// The same as commands of their own, if all of them can be.
fn finds(steps: &[ReadStep]) -> Option<Vec<Document>> {
    let batch = BATCH / i32::try_from(steps.len().max(1)).ok()?;
    let few = steps.len() <= MOST_COMMANDS;
    few.then(|| steps.iter().map(|step| step.find(batch)).collect()).flatten()
}

/// Sets the options of a read behind a write: it sees what the write has done, whatever reads are
/// to wait for by default, and does not keep the answer to the write waiting for long.
fn behind_a_write(question: &mut Document) {
    question.insert("readConcern", doc! {"level": "local"});
    question.insert("maxTimeMS", LONGEST_BEHIND_A_WRITE_MS);
}

/// Answers to the steps, by the way in which they were sent.
pub(crate) enum StepAnswers {
    /// The answer of the pipeline.
    Piped(Stream),
    /// Answers of single commands: the part of each, and whether it is a probe.
    Apart(VecDeque<(usize, bool, Stream)>),
}

impl StepAnswers {
    /// Sends all steps of one database. `looks`: and a look behind them, which is answered if it
    /// can be had with them. `leading`: this write goes before them.
    pub(crate) async fn ask(
        core: &Core,
        db: &str,
        steps: Vec<ReadStep>,
        looks: bool,
        leading: Option<&mut LeadingWrite<'_>>,
    ) -> Result<(Self, Option<Arc<ChangeLook>>)> {
        if let Some(leading) = leading {
            return Self::behind(core, db, &steps, leading).await;
        }
        if let Some(finds) = finds(&steps) {
            let finds: Vec<(&str, &Document)> = finds.iter().map(|find| (db, find)).collect();
            let (answers, look) = match looks {
                true => core.looks.ask_before_look(&finds, None).await?.unzip(),
                false => (core.server.cursors_together(&finds).await?, None),
            };
            if let Some(answers) = answers {
                return Ok((Self::apart(&steps, answers)?, look.flatten()));
            }
        }
        let command = pipeline(steps);
        if looks && let Some((mut answer, look)) = core.looks.ask_before_look(&[(db, &command)], None).await? {
            let answer = answer.pop().unwrap_or_else(|| unreachable!("there is one answer for each query"))?;
            return Ok((Self::Piped(answer), look));
        }
        Ok((Self::Piped(core.server.cursor(db, command).await?), None))
    }

    /// Sends a write, and behind it all steps and a look.
    ///
    /// # Errors
    /// Nothing was sent, if it does not say of the write that it was: the steps are no `find`s, or
    /// all of it is too long for one write.
    async fn behind(
        core: &Core,
        db: &str,
        steps: &[ReadStep],
        leading: &mut LeadingWrite<'_>,
    ) -> Result<(Self, Option<Arc<ChangeLook>>)> {
        let not_together = || Error::unsupported("the question cannot be sent behind the write".to_owned());
        let mut finds = finds(steps).ok_or_else(not_together)?;
        finds.iter_mut().for_each(behind_a_write);
        let finds: Vec<(&str, &Document)> = finds.iter().map(|find| (db, find)).collect();
        let asked = core.looks.ask_before_look(&finds, Some(leading)).await?;
        let (answers, look) = asked.ok_or_else(not_together)?;
        Ok((Self::apart(steps, answers)?, look))
    }

    fn apart(steps: &[ReadStep], answers: Vec<Result<Stream>>) -> Result<Self> {
        let answer = |(step, answer): (&ReadStep, Result<Stream>)| {
            Ok((step.part, matches!(step.kind, StepKind::Probe(_)), answer?))
        };
        Ok(Self::Apart(steps.iter().zip(answers).map(answer).collect::<Result<_>>()?))
    }

    /// The next document and its part; the document is `None` where a probe has found something.
    pub(crate) async fn next(&mut self) -> Result<Option<(usize, Option<RawDocumentBuf>)>> {
        match self {
            Self::Piped(answer) => {
                let Some(row) = answer.next().await? else { return Ok(None) };
                let part = row.get_i32(PART)?;
                let document = row.get_document(DOCUMENT).ok().map(ToOwned::to_owned);
                Ok(Some((usize::try_from(part).unwrap_or(usize::MAX), document)))
            }
            Self::Apart(answers) => {
                while let Some((part, is_probe, answer)) = answers.front_mut() {
                    if let Some(document) = answer.next().await? {
                        return Ok(Some((*part, (!*is_probe).then_some(document))));
                    }
                    answers.pop_front();
                }
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(stages: &[Document]) -> ReadStep {
        ReadStep::answer(1, "c", stages.to_vec())
    }

    #[test]
    fn stages_in_the_order_of_a_find_are_one() {
        let (matches, sorted) = (doc! {"$match": {"a": 1}}, doc! {"$sort": {"b": -1}});
        let (skipped, limited) = (doc! {"$skip": 2_i64}, doc! {"$limit": 3_i64});
        let shown = doc! {"$project": {"b": 1, "_id": 0}};
        let all = answer(&[matches.clone(), sorted, skipped, limited.clone(), shown]).find(BATCH).unwrap();
        let wanted = doc! {
            "find": "c", "filter": {"a": 1}, "sort": {"b": -1}, "skip": 2_i64, "limit": 3_i64,
            "projection": {"b": 1, "_id": 0}, "batchSize": BATCH,
        };
        assert_eq!(all, wanted);
        let some = answer(&[matches, limited]).find(BATCH).unwrap();
        assert_eq!(some, doc! {"find": "c", "filter": {"a": 1}, "limit": 3_i64, "batchSize": BATCH});
        let probe = ReadStep::probe(0, "c", doc! {"a": 1}).find(BATCH).unwrap();
        assert_eq!((probe.get_i32("limit").unwrap(), probe.get_bool("singleBatch").unwrap()), (1, true));
    }

    #[test]
    fn what_a_find_would_do_otherwise_stays_a_pipeline() {
        let (matches, limited) = (doc! {"$match": {"a": 1}}, doc! {"$limit": 3_i64});
        let others = [
            vec![limited, doc! {"$sort": {"b": 1}}],
            vec![matches.clone(), doc! {"$match": {"b": 1}}],
            vec![matches.clone(), doc! {"$unset": "b"}],
            vec![matches.clone(), doc! {"$project": {"b": {"$slice": ["$b", 2]}}}],
            vec![matches.clone(), doc! {"$project": {"b": "$c"}}],
            vec![doc! {"$match": {"a": 1}, "$limit": 3_i64}],
        ];
        for stages in others {
            let step = answer(&stages);
            assert_eq!(step.find(BATCH), None, "{stages:?}");
            let (coll, piped) = step.stages();
            assert_eq!((coll.as_str(), &piped[..stages.len()]), ("c", &*stages));
        }
    }

    #[test]
    fn many_steps_are_one_pipeline_and_a_few_share_the_batch() {
        let steps = |count: usize| (0..count).map(|_| answer(&[doc! {"$match": {}}])).collect::<Vec<_>>();
        let few = finds(&steps(4)).unwrap();
        assert!(few.iter().all(|find| find.get_i32("batchSize").unwrap() == BATCH / 4));
        assert!(finds(&steps(MOST_COMMANDS)).is_some() && finds(&steps(MOST_COMMANDS + 1)).is_none());
    }

    #[test]
    fn a_pipeline_asks_in_the_order_of_its_steps_and_says_of_which_part_each_answer_is() {
        let asked = pipeline(vec![ReadStep::probe(0, "a", doc! {"p": 1}), answer(&[doc! {"$match": {"q": 1}}])]);
        let mark = |part: i32| doc! {PART: {"$literal": part}};
        let mut found = mark(1);
        found.insert(DOCUMENT, "$$ROOT");
        let behind = doc! {"coll": "c", "pipeline": [{"$match": {"q": 1}}, {"$replaceWith": found}]};
        let all = vec![
            doc! {"$match": {"p": 1}},
            doc! {"$limit": 1},
            doc! {"$replaceWith": mark(0)},
            doc! {"$unionWith": behind},
        ];
        assert_eq!(asked, doc! {"aggregate": "a", "pipeline": all, "cursor": {"batchSize": BATCH}});
    }
}
