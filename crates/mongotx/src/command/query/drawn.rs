//! Filters that rest on chance (`$rand`, `$sampleRate`) where documents are selected first and
//! locked then: in writes that are made in a transaction, and in reads at repeatable read.
//!
//! The server asks such a filter once for each document. Here a document is selected, locked and
//! changed by several statements, so a filter that all of them ask would choose fewer, and others
//! each time. Chance is asked by the selection alone; the other conditions are asked
//! again, because a rival may have changed the document meanwhile.

use bson::{Bson, Document, doc};

use crate::{
    coordinator::queries::nondeterminism,
    error::{Error, Result},
};

/// Returns the conditions of a filter without those that rest on chance; `None`: none does.
///
/// # Errors
/// A condition that rests on chance stands in an `$or` or `$nor`, or within a condition on a field:
/// the rest of such a filter would not be a condition of its own.
pub(crate) fn lasting(filter: &Document) -> Result<Option<Document>> {
    if !nondeterminism::is_by_chance(filter) {
        return Ok(None);
    }
    let mut rest = Document::new();
    for (key, value) in filter {
        match (key.as_str(), value) {
            ("$sampleRate", _) => {}
            ("$expr", Bson::Document(expression)) if nondeterminism::is_by_chance(expression) => {
                rest.extend(lasting_expression(expression).map(|lasting| (key.clone(), lasting.into())));
            }
            ("$and", Bson::Array(operands)) => {
                rest.insert(key, lasting_operands(operands)?);
            }
            (_, Bson::Document(_) | Bson::Array(_)) if is_by_chance(key, value) => return Err(refused(key)),
            _ => {
                rest.insert(key, value.clone());
            }
        }
    }
    Ok(Some(rest))
}

fn lasting_operands(operands: &[Bson]) -> Result<Vec<Bson>> {
    let lasting_one = |operand: &Bson| match operand {
        Bson::Document(condition) => Ok(lasting(condition)?.unwrap_or_else(|| condition.clone()).into()),
        other => Ok(other.clone()),
    };
    operands.iter().map(lasting_one).collect()
}

/// The operands of an `$and` that do not rest on chance; `None`: the expression is of another kind,
/// or has no such operands.
fn lasting_expression(expression: &Document) -> Option<Document> {
    let operands = expression.get_array("$and").ok().filter(|_| expression.len() == 1)?;
    let is_lasting = |operand: &&Bson| !is_by_chance("$expr", operand);
    let lasting: Vec<Bson> = operands.iter().filter(is_lasting).cloned().collect();
    (!lasting.is_empty()).then(|| doc! {"$and": lasting})
}

fn is_by_chance(key: &str, value: &Bson) -> bool {
    nondeterminism::is_by_chance(&Document::from_iter([(key.to_owned(), value.clone())]))
}

fn refused(key: &str) -> Error {
    Error::unsupported(format!(
        "a filter of documents that are to be locked cannot have $rand or $sampleRate within {key}: only at the top \
         level, or in an $and"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_leaves_out_what_rests_on_chance() {
        let by_chance = doc! {"$expr": {"$lt": [{"$rand": {}}, 0.5]}};
        assert_eq!(lasting(&doc! {"a": 1, "$expr": {"$lt": ["$a", 2]}}).unwrap(), None);
        assert_eq!(lasting(&doc! {"a": 1, "$sampleRate": 0.5}).unwrap(), Some(doc! {"a": 1}));
        assert_eq!(lasting(&by_chance).unwrap(), Some(doc! {}));
        let free = doc! {"$eq": ["$owner", null]};
        let both = doc! {"$expr": {"$and": [{"$lt": [{"$rand": {}}, 0.5]}, free.clone()]}};
        assert_eq!(lasting(&both).unwrap(), Some(doc! {"$expr": {"$and": [free]}}));
        let within = doc! {"$and": [by_chance.clone(), {"a": {"$gt": 1}}], "b": 2};
        assert_eq!(lasting(&within).unwrap(), Some(doc! {"$and": [{}, {"a": {"$gt": 1}}], "b": 2}));
        for refused in [doc! {"$or": [by_chance.clone(), {"a": 1}]}, doc! {"$nor": [{"$sampleRate": 0.1}]}] {
            assert!(lasting(&refused).unwrap_err().to_string().contains("$rand or $sampleRate within"), "{refused}");
        }
    }
}
