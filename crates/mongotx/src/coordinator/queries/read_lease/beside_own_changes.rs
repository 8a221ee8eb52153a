//! The right to send a query beside what this client has left, and the decisions that its answer
//! may show (decision 0077).

use std::collections::HashSet;

use bson::oid::ObjectId;
use protocol::TxId;

use super::decisions::{BegunDecision, FoundBy};
use crate::coordinator::request::{fields::Fields, id_span::IdSpan, own_key::OwnKey};

/// The right to send one query of a collection without a probe, beside what transactions of this
/// client have left there (decision 0077).
#[derive(Clone, Debug)]
pub(crate) struct PermitBeside {
    /// Number of the lease: another one for each that is taken.
    pub(super) lease: u64,
    /// The server process in which the collection is settled.
    pub(super) process: ObjectId,
    /// Number of the last decision that had begun in any collection.
    pub(super) decisions: u64,
    /// Fields on which it depends which documents the query finds.
    pub(super) found_by: FoundBy,
    /// The decisions that were under way in the collection.
    pub(super) open: Vec<BegunDecision>,
}

impl PermitBeside {
    /// Returns true if the query finds documents by their `_id`s alone.
    pub(crate) fn is_by_id(&self) -> bool {
        self.found_by == FoundBy::Id
    }
}

/// Decisions beside which a query was carried out.
pub(crate) struct ConcurrentDecisions {
    /// The query finds documents by their `_id`s alone.
    is_by_id: bool,
    /// Decisions that were under way when the query was permitted.
    open: Vec<BegunDecision>,
    /// Decisions that have begun since.
    later: Vec<BegunDecision>,
}

impl ConcurrentDecisions {
    /// The decisions beside which the permitted query was carried out, where `later` have begun
    /// since. `None`: one of them makes a difference to which documents are found.
    pub(super) fn of(permit: &PermitBeside, later: Vec<BegunDecision>) -> Option<Self> {
        let is_disturbed = later.iter().any(|one| permit.found_by.is_disturbed_by(&one.fields));
        let is_by_id = permit.is_by_id();
        (!is_disturbed).then(|| Self { is_by_id, open: permit.open.clone(), later })
    }

    /// Returns true if this transaction has begun to be decided since the query was permitted.
    pub(crate) fn has_begun_later(&self, id: TxId) -> bool {
        self.later.iter().any(|one| one.id == id)
    }

    /// Returns true if these decisions together have written to one document of the answer at most.
    /// Documents that may have come or gone count whether they are in the answer or not, where the
    /// query has looked for documents: in `span`, if it is by `_id` alone.
    pub(super) fn have_written_to_one(&self, answer: &[Option<OwnKey>], span: &IdSpan) -> bool {
        let shown: HashSet<&OwnKey> = answer.iter().flatten().collect();
        let mut written = HashSet::new();
        for one in self.open.iter().chain(&self.later) {
            let Some(documents) = &one.documents else { return false };
            let may_come_or_go = self.is_by_id && one.fields == Fields::All;
            let is_counted = |key: &&OwnKey| may_come_or_go && span.may_have(key) || shown.contains(*key);
            written.extend(documents.iter().filter(is_counted));
        }
        let has_others = !self.open.is_empty() || !self.later.is_empty();
        written.len() <= 1 && !(has_others && answer.contains(&None))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::{Bson, doc};
    use protocol::ClientId;

    use super::*;
    use crate::{
        coordinator::{
            queries::read_lease::decisions::{CollectionChanges, Decisions},
            request::{query::Query, query_options::QueryOptions},
        },
        options::Namespace,
    };

    fn key(id: i32) -> OwnKey {
        OwnKey::of(&Bson::Int32(id))
    }

    /// Decisions under way, each of a transaction that has changed these documents.
    fn meanwhile(found_by: FoundBy, fields: &Fields, documents: &[&[i32]]) -> Option<ConcurrentDecisions> {
        let (ns, mut decisions) = (Namespace::new("db", "c"), Decisions::default());
        for (seq, ids) in (1..).zip(documents) {
            let ids: Arc<[OwnKey]> = ids.iter().copied().map(key).collect();
            let written = CollectionChanges { ns: ns.clone(), fields: fields.clone(), documents: Some(ids) };
            decisions.begin(TxId { client: ClientId([1; 12]), seq }, &[written], |_, _| true);
        }
        let begun = decisions.since(&ns, 0)?;
        let process = ObjectId::from_bytes([1; 12]);
        let permit = PermitBeside { lease: 1, process, decisions: 0, found_by, open: Vec::new() };
        ConcurrentDecisions::of(&permit, begun)
    }

    fn field(name: &str) -> Fields {
        Fields::Of(Arc::new([name.to_owned()].into()))
    }

    #[test]
    fn a_decision_that_changes_which_documents_are_found_disturbs_the_query() {
        let by_x = || FoundBy::Fields(field("x"));
        assert!(meanwhile(by_x(), &field("x"), &[&[1]]).is_none());
        assert!(meanwhile(by_x(), &field("y"), &[&[1]]).is_some());
        assert!(meanwhile(FoundBy::Id, &Fields::All, &[&[1]]).is_some());
    }

    #[test]
    fn one_document_of_the_answer_at_most_may_be_written_to() {
        let have = |fields: &Fields, documents: &[&[i32]], answer: &[i32]| {
            let answer: Vec<_> = answer.iter().map(|id| Some(key(*id))).collect();
            meanwhile(FoundBy::Id, fields, documents).unwrap().have_written_to_one(&answer, &IdSpan::default())
        };
        assert!(have(&field("x"), &[&[1], &[1]], &[1, 2]), "the same document");
        assert!(!have(&field("x"), &[&[1], &[2]], &[1, 2]));
        assert!(have(&field("x"), &[&[1], &[2]], &[1]), "the other one is not in the answer");
        assert!(!have(&Fields::All, &[&[1, 2]], &[1]), "the other one may have gone");
        let unknown = meanwhile(FoundBy::Id, &field("x"), &[&[1]]).unwrap();
        assert!(!unknown.have_written_to_one(&[None], &IdSpan::default()), "it may be the one that is written to");
    }

    #[test]
    fn documents_that_come_or_go_count_where_the_query_has_looked() {
        let query = Query::of(doc! {"_id": {"$gte": 5}}, QueryOptions::default());
        let have = |documents: &[&[i32]], answer: &[i32]| {
            let answer: Vec<_> = answer.iter().map(|id| Some(key(*id))).collect();
            let meanwhile = meanwhile(FoundBy::Id, &Fields::All, documents).unwrap();
            meanwhile.have_written_to_one(&answer, &IdSpan::of(&query))
        };
        assert!(have(&[&[1], &[2], &[9]], &[5, 6]), "one of them lies behind");
        assert!(!have(&[&[1], &[8], &[9]], &[5, 6]), "one of both may have come");
    }
}
