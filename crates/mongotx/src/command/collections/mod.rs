//! Commands about whole collections and databases, which are part of no transaction. What their
//! options and indexes are stored as is in `crate::coordinator::catalog` and
//! `crate::coordinator::schema`.
//!
//! | file | content |
//! | --- | --- |
//! | [`mod@drop`] | dropping collections and databases |
//! | [`indexes`] | making, changing and dropping indexes |
//! | [`rename`] | renaming collections |
//! | [`to_its_end`] | work that goes on when its caller has gone |
//! | [`collection_events`] | the events that both leave in change streams |

mod collection_events;
pub(crate) mod drop;
pub(crate) mod indexes;
pub(crate) mod rename;
mod to_its_end;
