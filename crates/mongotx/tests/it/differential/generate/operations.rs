//! Random operations with their options.

use bson::{Bson, Document, doc};

use super::{filters, updates, values};
use crate::differential::operation::{Change, Delete, FindAndModify, Modify, Operation, Query, QueryOptions, Update};
use crate::random::Random;

/// The indexes that a collection may have, by name and key. None can refuse a document of the
/// generator.
pub(crate) fn indexes() -> Vec<Document> {
    vec![doc! {"n": 1}, doc! {"t": 1}, doc! {"d.x": 1}, doc! {"s": 1, "_id": -1}, doc! {"l.k": -1}, doc! {"a": 1}]
}

const NO_INDEX: &str = "no_such_index";

/// Makes operations for a collection with these indexes.
pub(crate) struct Operations {
    pub(crate) random: Random,
    pub(crate) indexes: Vec<Document>,
    /// Indexes that queries may name.
    pub(crate) hints: Vec<Document>,
}

impl Operations {
    pub(crate) fn next(&mut self) -> Operation {
        match self.random.below(100) {
            0..=9 => Operation::InsertOne(values::document(&mut self.random)),
            10..=15 => self.insert_many(),
            16..=55 => self.write(),
            56..=63 => Operation::FindAndModify(self.find_and_modify()),
            64..=69 => self.bulk(),
            _ => self.read(),
        }
    }

    pub(crate) fn read(&mut self) -> Operation {
        match self.random.below(20) {
            0..=10 => Operation::Find(self.query()),
            11..=12 => Operation::FindOne(self.first()),
            13..=16 => Operation::Count(self.count()),
            17 => Operation::EstimatedCount,
            _ => self.distinct(),
        }
    }

    fn insert_many(&mut self) -> Operation {
        let mut documents = self.random.several(4, values::document);
        documents.push(values::document(&mut self.random));
        Operation::InsertMany { documents, ordered: self.random.chance(60) }
    }

    fn write(&mut self) -> Operation {
        if self.random.chance(22) { Operation::Delete(self.delete()) } else { Operation::Update(self.update()) }
    }

    fn collation(&mut self) -> Document {
        self.random
            .pick(&[
                doc! {"locale": "en", "strength": 2},
                doc! {"locale": "en", "strength": 1},
                doc! {"locale": "en"},
                doc! {"locale": "en", "numericOrdering": true},
                doc! {"locale": "simple"},
            ])
            .clone()
    }

    fn options(&mut self) -> QueryOptions {
        let collation = if self.random.chance(12) { Some(self.collation()) } else { None };
        QueryOptions { collation, hint: self.hint(), variables: None }
    }

    fn hint(&mut self) -> Option<Bson> {
        match self.random.below(40) {
            0 => Some("_id_".into()),
            1 => Some(doc! {"_id": 1}.into()),
            2..=4 if !self.hints.is_empty() => Some(self.random.pick(&self.hints).clone().into()),
            5 if self.random.chance(30) => Some(NO_INDEX.into()),
            _ => None,
        }
    }

    fn filtered(&mut self) -> (Document, QueryOptions) {
        let mut options = self.options();
        if self.random.chance(6) {
            let (filter, variables) = filters::with_variables(&mut self.random);
            options.variables = Some(variables);
            return (filter, options);
        }
        let filter =
            if self.random.chance(20) { filters::of_one(&mut self.random) } else { filters::filter(&mut self.random) };
        (filter, options)
    }

    fn sort(&mut self) -> Document {
        let mut sort = Document::new();
        for field in self.random.several(2, |random| *random.pick(&["n", "a", "s", "t", "d.x", "l.k", "none", "d"])) {
            sort.insert(field, *self.random.pick(&[1, -1]));
        }
        sort.insert("_id", *self.random.pick(&[1, -1]));
        sort
    }

    fn query(&mut self) -> Query {
        let (filter, options) = self.filtered();
        let mut query = Query { filter, options, ..Query::default() };
        query.batch_size = self.random.maybe(15, |random| 2 + random.below(3) as u32);
        query.projection = self.projection();
        if is_refused(&query.projection) {
            // One fault at a time: difference D10.
            query.options.hint = None;
            return query;
        }
        if self.random.chance(60) {
            query.sort = Some(self.sort());
            if is_exact(&query.options) {
                query.skip = self.random.maybe(25, |random| random.below(5) as u64);
                query.limit = self.random.maybe(30, |random| random.below(6) as u64);
            }
        }
        query
    }

    fn first(&mut self) -> Query {
        if self.random.chance(50) {
            let filter = filters::of_one(&mut self.random);
            return Query { filter, projection: self.projection(), ..Query::default() };
        }
        let mut query = Query { limit: None, batch_size: None, sort: Some(self.sort()), ..self.query() };
        if is_refused(&query.projection) {
            query.sort = None;
        }
        query.options.collation = None;
        query
    }

    fn count(&mut self) -> Query {
        let filter = filters::filter(&mut self.random);
        let skip = self.random.maybe(15, |random| random.below(4) as u64);
        let limit = self.random.maybe(15, |random| 1 + random.below(4) as u64);
        Query { filter, skip, limit, options: self.options(), ..Query::default() }
    }

    fn distinct(&mut self) -> Operation {
        let field =
            *self.random.pick(&["a", "n", "s", "t", "d", "d.x", "d.t", "l.k", "l", "_id", "none", "t.0", "a.x"]);
        // The order of the documents decides which of several values that are equal under a
        // collation is shown, and whether 1 or 1.0 is: queries of these fields have no collation.
        let mut query = Query { filter: filters::filter(&mut self.random), ..Query::default() };
        if self.indexes.iter().any(|keys| keys.contains_key(field)) {
            // From an index alone the server answers null for documents without the field:
            // difference D9.
            query.filter = doc! {"$and": [query.filter, {field: {"$exists": true}}]};
        }
        Operation::Distinct { field: field.to_owned(), query }
    }

    fn projection(&mut self) -> Option<Document> {
        if self.random.chance(65) {
            return None;
        }
        Some(match self.random.below(16) {
            0 => doc! {"n": 1, "s": 1},
            1 => doc! {"_id": 0, "n": 1, "t": 1},
            2 => doc! {"a": 0, "d": 0},
            3 => doc! {"d.x": 1, "l.k": 1},
            4 => doc! {"d.x": 0, "l.v": 0},
            5 => doc! {"_id": 0},
            6 => doc! {"_id": 1},
            7 => doc! {"t": {"$slice": *self.random.pick(&[1, -2, 0])}},
            8 => doc! {"n": 1, "t": {"$slice": [1, 2]}},
            9 => doc! {"sum": {"$ifNull": ["$n", "none"]}, "s": 1},
            10 => doc! {"n": 1, "whole": "$$ROOT"},
            11 => doc! {"l": {"$elemMatch": {"k": 1}}},
            12 => doc! {"d": {"x": 1, "y": 1}},
            13 => {
                doc! {"s": 1, "constant": {"$literal": 1}, "first": {"$first": {"$cond": [{"$isArray": "$t"}, "$t", []]}}}
            }
            14 => doc! {},
            _ => doc! {"a": 1, "b": 0},
        })
    }

    fn update(&mut self) -> Update {
        Self::of_one_fault(match self.random.below(100) {
            0..=44 => self.update_one(),
            45..=66 => self.update_many(),
            67..=76 => self.update_at_place(),
            77..=87 => self.replace_one(),
            _ => self.upsert(),
        })
    }

    fn update_one(&mut self) -> Update {
        let (change, array_filters) = updates::change(&mut self.random);
        let (filter, options) = self.one();
        Update { filter, change, many: false, upsert: self.random.chance(15), array_filters, options }
    }

    /// A filter for one document. Under a loose collation some string ids are equal to others: not
    /// `b`.
    fn one(&mut self) -> (Document, QueryOptions) {
        let mut options = self.options();
        let filter = match &options.collation {
            Some(_) => {
                let id = self.random.pick(&[Bson::from("b"), 1.into(), values::object_id(1)]).clone();
                filters::one_with(&mut self.random, id)
            }
            None => filters::of_one(&mut self.random),
        };
        if self.random.chance(5) {
            options.variables = Some(doc! {"five": 5, "word": "w"});
        }
        (filter, options)
    }

    fn update_many(&mut self) -> Update {
        let (change, array_filters) = updates::change(&mut self.random);
        let (filter, options) = self.filtered();
        Update { filter, change, many: true, upsert: self.random.chance(8), array_filters, options }
    }

    /// An update that the server cannot refuse, where its hint or its filter is what it has to
    /// refuse: difference D10.
    fn of_one_fault(mut update: Update) -> Update {
        let bad_hint = matches!(&update.options.hint, Some(Bson::String(name)) if name == NO_INDEX);
        if bad_hint || update.upsert && format!("{:?}", update.filter).contains("$expr") {
            update.change = Change::Operators(doc! {"$set": {"faulty": true}});
            update.array_filters = None;
            update.upsert &= !bad_hint;
        }
        update
    }

    fn update_at_place(&mut self) -> Update {
        let (mut filter, path) = filters::pointing(&mut self.random);
        let many = self.random.chance(50);
        if !many {
            filter.insert("_id", values::asked_id(&mut self.random));
        }
        let change = Change::Operators(updates::positional(&mut self.random, path));
        Update {
            filter,
            change,
            many,
            upsert: self.random.chance(5),
            array_filters: None,
            options: QueryOptions::default(),
        }
    }

    fn replace_one(&mut self) -> Update {
        let (filter, options) = self.one();
        let change = Change::Replacement(updates::replacement(&mut self.random));
        Update { filter, change, many: false, upsert: self.random.chance(40), array_filters: None, options }
    }

    /// An upsert that inserts more often than not.
    fn upsert(&mut self) -> Update {
        let mut update = if self.random.chance(70) { self.update_one() } else { self.replace_one() };
        update.upsert = true;
        update.options.hint = None;
        update.filter = self.upsert_filter();
        if let (Change::Operators(operators), true) = (&mut update.change, self.random.chance(40)) {
            let on_insert = doc! {"made": true, "d.made": values::scalar(&mut self.random)};
            operators.insert("$setOnInsert", on_insert);
        }
        if let (Change::Operators(operators), 0) = (&mut update.change, self.random.below(6)) {
            update.filter.remove("_id");
            update.filter.insert("none", 5);
            operators.insert("$setOnInsert", doc! {"_id": values::id(&mut self.random)});
        }
        if update.options.collation.is_some() {
            update.options.collation = Some(doc! {"locale": "en"});
        }
        update
    }

    fn upsert_filter(&mut self) -> Document {
        let random = &mut self.random;
        let id = values::id(random);
        let mut filter = doc! {"_id": id.clone()};
        match random.below(8) {
            0 => filter.insert("n", values::number(random)),
            1 => filter.insert("d.x", values::number(random)),
            2 => filter.insert("d", values::inner(random)),
            3 => filter.insert("n", doc! {"$gt": 100}),
            4 => filter.insert("$or", vec![doc! {"s": "or"}]),
            5 => return doc! {"$and": [{"_id": id}, {"a": values::scalar(random)}, {"d.y": {"$eq": 3}}]},
            6 => filter.insert("t", doc! {"$all": [values::tag(random)]}),
            _ => None,
        };
        filter
    }

    fn delete(&mut self) -> Delete {
        let many = self.random.chance(30);
        let (filter, options) = if many { self.few() } else { self.one() };
        Delete { filter, many, options }
    }

    /// A filter of not too many documents at a time: some should be left.
    fn few(&mut self) -> (Document, QueryOptions) {
        let (filter, options) = self.filtered();
        if self.random.chance(15) {
            return (filter, options);
        }
        let ids: Vec<Bson> = (0..3).map(|_| values::asked_id(&mut self.random)).collect();
        (doc! {"$and": [filter, {"_id": {"$in": ids}}]}, options)
    }

    fn find_and_modify(&mut self) -> FindAndModify {
        let modify = match self.random.below(10) {
            0 | 1 => {
                let (filter, options) = self.one();
                Modify::Delete(Delete { filter, many: false, options })
            }
            2 | 3 => Modify::Update(self.replace_one()),
            _ => Modify::Update(self.update_one()),
        };
        let mut command =
            FindAndModify { modify, sort: None, projection: self.projection(), after: self.random.chance(50) };
        let (filter, options) = match &mut command.modify {
            Modify::Update(update) => (&mut update.filter, &mut update.options),
            Modify::Delete(delete) => (&mut delete.filter, &mut delete.options),
        };
        if is_refused(&command.projection) {
            options.hint = None;
        } else if self.random.chance(50) {
            options.collation = None;
            *filter = filters::filter(&mut self.random);
            command.sort = Some(self.sort());
        }
        if let Modify::Update(mut update) = command.modify {
            if is_refused(&command.projection) {
                update.change = Change::Operators(doc! {"$set": {"shown": true}});
                update.array_filters = None;
            }
            command.modify = Modify::Update(Self::of_one_fault(update));
        }
        command
    }

    fn bulk(&mut self) -> Operation {
        let count = 1 + self.random.below(4);
        let writes: Vec<Operation> = (0..count).map(|_| self.bulk_write()).collect();
        let ordered = self.random.chance(60) || writes.iter().any(Operation::updates_many);
        Operation::Bulk { writes, ordered }
    }

    fn bulk_write(&mut self) -> Operation {
        match self.random.below(4) {
            0 => Operation::InsertOne(values::document(&mut self.random)),
            1 => Operation::Delete(Delete { options: QueryOptions::default(), ..self.delete_exact() }),
            _ => {
                let mut update = self.update();
                while update.array_filters.is_some() || update.options.variables.is_some() {
                    update = self.update();
                }
                update.options = QueryOptions::default();
                Operation::Update(update)
            }
        }
    }

    fn delete_exact(&mut self) -> Delete {
        let mut delete = self.delete();
        if delete.options.variables.is_some() {
            delete =
                Delete { filter: filters::of_one(&mut self.random), many: false, options: QueryOptions::default() };
        }
        delete
    }
}

fn is_refused(projection: &Option<Document>) -> bool {
    projection.as_ref().is_some_and(|projection| projection.get_i32("b").is_ok_and(|shown| shown == 0))
}

/// Returns true if different values have a promised order.
fn is_exact(options: &QueryOptions) -> bool {
    !options
        .collation
        .as_ref()
        .is_some_and(|collation| collation.get_i32("strength").is_ok_and(|strength| strength < 3))
}
