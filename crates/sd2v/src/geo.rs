//! Geospatial queries by distance: reading them, and asking them of both versions of stored
//! documents.
//!
//! The server sorts by distance from an index, so such a condition cannot stand beside `$or`: the
//! safe versions are asked with the user's field, the unsafe ones with the same field below
//! `_unsafe`, and the two answers are merged by distance.
//!
//! - `near`: `$near`, `$nearSphere` and `$geoNear` as conditions of a filter.
//! - `stage`: the `$geoNear` stage of an aggregation, in a safe view and in a transaction's own.
//! - `index`: which field a stage without `key` means.

mod index;
mod near;
mod stage;

pub use index::{has_geo_index, only_geo_field};
pub use near::Near;
pub(crate) use near::{is_near_operator, near_condition};
pub use stage::{GeoNear, hide_distance, sort_by_distance};
