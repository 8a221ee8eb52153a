//! TPC-C with natural keys: rows have the `_id`s that a driver makes, and are found by the fields
//! of their primary keys, each set of which has a unique index. That is what a program for a
//! relational database becomes when it is carried over.
//!
//! The transactions name rows by one number each ([`super::ids`]), which is made of the primary
//! key: here a session that takes it apart. What it answers has that number as its `_id` again.

use bson::{Bson, Document, doc, oid::ObjectId};
use futures_util::future::BoxFuture;

use super::schema::{CUSTOMER, DISTRICT, ITEM, NEW_ORDER, ORDER, ORDER_LINE, STOCK, WAREHOUSE};
use crate::{
    error::OpResult,
    targets::{Change, Find, Index, Session, TxOptions, Update},
};

/// The primary key of a table: its fields from the last to the first, each with the number of
/// values that the next ones have a place for. 0: the rest.
type Key = &'static [(&'static str, i64)];

const PLACES_OF_ORDERS: i64 = 10_000_000_000;
const PLACES_OF_DISTRICTS: i64 = 100;

/// Primary key of a collection's documents, in the order in which [`super::ids`] packs it into a
/// number.
fn key_of(collection: &str) -> Option<Key> {
    Some(match collection {
        WAREHOUSE => &[("W_ID", 0)],
        ITEM => &[("I_ID", 0)],
        STOCK => &[("S_I_ID", 1_000_000), ("S_W_ID", 0)],
        DISTRICT => &[("D_ID", PLACES_OF_DISTRICTS), ("D_W_ID", 0)],
        CUSTOMER => &[("C_ID", 100_000), ("C_D_ID", PLACES_OF_DISTRICTS), ("C_W_ID", 0)],
        ORDER => &[("O_ID", PLACES_OF_ORDERS), ("O_D_ID", PLACES_OF_DISTRICTS), ("O_W_ID", 0)],
        NEW_ORDER => &[("NO_O_ID", PLACES_OF_ORDERS), ("NO_D_ID", PLACES_OF_DISTRICTS), ("NO_W_ID", 0)],
        ORDER_LINE => {
            &[("OL_NUMBER", 100), ("OL_O_ID", PLACES_OF_ORDERS), ("OL_D_ID", PLACES_OF_DISTRICTS), ("OL_W_ID", 0)]
        }
        _ => return None,
    })
}

/// The unique index on the primary key of a table; none for payments, which have no key.
pub fn index(collection: &str) -> Option<Index> {
    let key = key_of(collection)?;
    let fields = key.iter().rev().map(|(field, _)| ((*field).to_owned(), Bson::Int32(1)));
    Some(Index { key: fields.collect(), unique: true })
}

/// A row as it is stored.
pub fn row(mut row: Document) -> Document {
    row.remove("_id");
    let mut stored = doc! {"_id": ObjectId::new()};
    stored.extend(row);
    stored
}

/// The values of the primary key, its first field first.
fn split(key: Key, mut id: i64) -> Document {
    let mut values = Vec::new();
    for (field, places) in key {
        let value = if *places == 0 { id } else { id % places };
        values.push(((*field).to_owned(), Bson::Int64(value)));
        id = if *places == 0 { 0 } else { id / places };
    }
    values.into_iter().rev().collect()
}

/// The number of a row, if it has its primary key.
fn join(key: Key, row: &Document) -> Option<i64> {
    key.iter().rev().try_fold(0_i64, |id, (field, places)| {
        let value = match row.get(field)? {
            Bson::Int64(value) => *value,
            Bson::Int32(value) => (*value).into(),
            _ => return None,
        };
        Some(if *places == 0 { value } else { id * places + value })
    })
}

/// The filter with the primary key in place of the number. Several rows of which all but the last
/// field are the same are one condition.
fn filter(collection: &str, mut filter: Document) -> Document {
    let Some(key) = key_of(collection) else { return filter };
    let natural = match filter.remove("_id") {
        None => return filter,
        Some(Bson::Document(operators)) => among(key, operators.get_array("$in").map_or(&[][..], Vec::as_slice)),
        Some(id) => split(key, id.as_i64().unwrap_or_default()),
    };
    natural.into_iter().chain(filter).collect()
}

fn among(key: Key, ids: &[Bson]) -> Document {
    let last = key[0].0;
    let mut groups: Vec<(Document, Vec<Bson>)> = Vec::new();
    for id in ids {
        let mut natural = split(key, id.as_i64().unwrap_or_default());
        let value = natural.remove(last).unwrap_or(Bson::Null);
        match groups.iter_mut().find(|(group, _)| *group == natural) {
            Some((_, values)) => values.push(value),
            None => groups.push((natural, vec![value])),
        }
    }
    let mut conditions = groups.into_iter().map(|(mut group, values)| {
        group.insert(last, doc! {"$in": values});
        group
    });
    match (conditions.next(), conditions.next()) {
        (None, _) => doc! {last: {"$in": []}},
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let all: Vec<Document> = [first, second].into_iter().chain(conditions).collect();
            doc! {"$or": all}
        }
    }
}

fn find(collection: &str, mut find: Find) -> Find {
    find.filter = filter(collection, find.filter);
    if let Some(key) = key_of(collection).filter(|_| !find.projection.is_empty()) {
        find.projection.extend(key.iter().map(|(field, _)| ((*field).to_owned(), Bson::Int32(1))));
        find.projection.remove("_id");
    }
    find
}

fn update(collection: &str, update: Update) -> Update {
    Update { filter: filter(collection, update.filter), ..update }
}

/// A row as the transactions know it.
fn known(collection: &str, mut row: Document) -> Document {
    if let Some(id) = key_of(collection).and_then(|key| join(key, &row)) {
        row.insert("_id", id);
    }
    row
}

/// A session that finds documents by their natural keys instead of their `_id`s.
pub struct Natural<'a>(pub &'a mut dyn Session);

impl Session for Natural<'_> {
    fn begin<'a>(&'a mut self, options: &'a TxOptions) -> BoxFuture<'a, OpResult<()>> {
        self.0.begin(options)
    }

    fn commit(&mut self) -> BoxFuture<'_, OpResult<()>> {
        self.0.commit()
    }

    fn rollback(&mut self) -> BoxFuture<'_, OpResult<()>> {
        self.0.rollback()
    }

    fn find<'a>(&'a mut self, collection: &'a str, asked: Find) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        Box::pin(async move {
            let found = self.0.find(collection, find(collection, asked)).await?;
            Ok(found.into_iter().map(|row| known(collection, row)).collect())
        })
    }

    fn find_one<'a>(&'a mut self, collection: &'a str, asked: Find) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            let found = self.0.find_one(collection, find(collection, asked)).await?;
            Ok(found.map(|row| known(collection, row)))
        })
    }

    fn insert<'a>(&'a mut self, collection: &'a str, rows: Vec<Document>) -> BoxFuture<'a, OpResult<()>> {
        self.0.insert(collection, rows.into_iter().map(row).collect())
    }

    fn update<'a>(&'a mut self, collection: &'a str, one: Update) -> BoxFuture<'a, OpResult<bool>> {
        self.0.update(collection, update(collection, one))
    }

    fn update_each<'a>(&'a mut self, collection: &'a str, updates: Vec<Update>) -> BoxFuture<'a, OpResult<u64>> {
        self.0.update_each(collection, updates.into_iter().map(|one| update(collection, one)).collect())
    }

    fn find_and_modify<'a>(
        &'a mut self,
        collection: &'a str,
        asked: Find,
        change: Change,
    ) -> BoxFuture<'a, OpResult<Option<Document>>> {
        Box::pin(async move {
            let found = self.0.find_and_modify(collection, find(collection, asked), change).await?;
            Ok(found.map(|row| known(collection, row)))
        })
    }

    fn delete<'a>(&'a mut self, collection: &'a str, of: Document) -> BoxFuture<'a, OpResult<bool>> {
        self.0.delete(collection, filter(collection, of))
    }

    /// Pipelines name no row by its number.
    fn aggregate<'a>(
        &'a mut self,
        collection: &'a str,
        pipeline: Vec<Document>,
    ) -> BoxFuture<'a, OpResult<Vec<Document>>> {
        self.0.aggregate(collection, pipeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tpcc::ids::{self, Customer, District, Order};

    #[test]
    fn the_number_of_a_row_is_its_primary_key() {
        let district = District { warehouse: 12, number: 10 };
        let (customer, order) = (Customer { district, number: 3_000 }, Order { district, number: 4_711 });
        let (w, d, o) = (12_i64, 10_i64, 4_711_i64);
        for (collection, id, expected) in [
            (WAREHOUSE, 12, doc! {"W_ID": w}),
            (ITEM, 7, doc! {"I_ID": 7_i64}),
            (STOCK, ids::stock(12, 100_000), doc! {"S_W_ID": w, "S_I_ID": 100_000_i64}),
            (DISTRICT, district.id(), doc! {"D_W_ID": w, "D_ID": d}),
            (CUSTOMER, customer.id(), doc! {"C_W_ID": w, "C_D_ID": d, "C_ID": 3_000_i64}),
            (ORDER, order.id(), doc! {"O_W_ID": w, "O_D_ID": d, "O_ID": o}),
            (NEW_ORDER, order.id(), doc! {"NO_W_ID": w, "NO_D_ID": d, "NO_O_ID": o}),
            (ORDER_LINE, order.line_id(15), doc! {"OL_W_ID": w, "OL_D_ID": d, "OL_O_ID": o, "OL_NUMBER": 15_i64}),
        ] {
            assert_eq!(filter(collection, doc! {"_id": id}), expected, "{collection}");
            assert_eq!(known(collection, expected).get_i64("_id").ok(), Some(id), "{collection}");
        }
    }

    #[test]
    fn rows_that_differ_in_the_last_field_are_one_condition() {
        let of = |all: &[(u32, u32)]| {
            let ids: Vec<i64> = all.iter().map(|(warehouse, item)| ids::stock(*warehouse, *item)).collect();
            filter(STOCK, doc! {"_id": {"$in": ids}, "S_QUANTITY": 5})
        };
        let one = |w: i64, items: &[i64]| doc! {"S_W_ID": w, "S_I_ID": {"$in": items}};
        let mut expected = one(1, &[5, 6]);
        expected.insert("S_QUANTITY", 5);
        assert_eq!(of(&[(1, 5), (1, 6)]), expected);
        assert_eq!(of(&[(1, 5), (2, 6)]), doc! {"$or": [one(1, &[5]), one(2, &[6])], "S_QUANTITY": 5});
    }

    #[test]
    fn what_is_asked_for_has_the_key_in_it() {
        let asked = Find::new(doc! {"_id": 101_i64}).project(doc! {"D_TAX": 1, "_id": 1});
        let asked = find(DISTRICT, asked);
        assert_eq!(asked.filter, doc! {"D_W_ID": 1_i64, "D_ID": 1_i64});
        assert_eq!(asked.projection, doc! {"D_TAX": 1, "D_ID": 1, "D_W_ID": 1});
        assert!(row(doc! {"_id": 5_i64, "a": 1}).get_object_id("_id").is_ok());
    }
}
