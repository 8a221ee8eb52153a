//! Filters: what they may contain, the same condition on the unsafe version, and what they say
//! about `_id`.
//!
//! Only the top level of a filter names fields of the document; `$and`, `$or` and `$nor` keep that
//! level, and the operators below a field (`$elemMatch`, `$not`, `$in`, `$geoWithin`, …) are
//! relative to the field and stay as they are.
//!
//! - `check`: refusing reserved names and what cannot be rewritten.
//! - `demands`: filters that a document without fields cannot match.
//! - `exact`: a field that is exactly what it was read to be.
//! - `guard`: expressions that fail where there is no document.
//! - `rewrite`: the prefix. `schema`: `$jsonSchema`.
//! - `script`: `$where` as an expression.
//! - `special`: what only an index answers: `$text`, and orders by distance.
//! - `ids`: which `_id`s a filter is limited to, or gives to an upsert.

mod check;
mod demands;
mod exact;
mod guard;
mod ids;
mod rewrite;
mod schema;
mod script;
mod special;

pub use check::{check_filter, has_expression, sees_lock_fields};
pub use demands::demands_a_field;
pub(crate) use demands::{allowed_values, demanded_values, is_present};
pub use exact::{Exact, exact};
pub use guard::guard_filter;
pub use ids::{Demand, demands_only, equality_id, is_only_id, pinned_ids, plain_demands, without_id};
pub(crate) use ids::{equal, equalities, equality_ids, is_conjunction};
pub use rewrite::rewrite_filter;
pub use script::{has_script, with_scripts_as_expressions};
pub(crate) use special::easily_asked;
pub use special::{LockCondition, Parts, has_special, lock_condition, parts, weakened};

/// `$and`, `$or` or `$nor`: the operators whose operands are filters of the document again.
pub(crate) fn is_logical(key: &str) -> bool {
    matches!(key, "$and" | "$or" | "$nor")
}
