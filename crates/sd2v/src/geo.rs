//! Geospatial queries by distance: reading them, and running them on both versions of stored
//! documents.
//!
//! The server sorts by distance from an index, so such a condition cannot stand beside `$or`: the
//! safe versions are searched by the user's field, the unsafe ones with the same field below
//! `_unsafe`, and the two answers are merged by distance.
//!
//! - `stage`: the `$geoNear` stage of an aggregation, in a safe view and in a transaction's own.
//! - `index`: which field a stage without `key` means.

mod index;
mod stage;

pub use crate::near::Near;
pub use index::{has_geo_index, only_geo_field};
pub use stage::{GeoNear, hide_distance, sort_by_distance};
