//! The events of change streams, for the gateway and for programs that follow collections.

use std::{sync::Arc, time::Duration};

use bson::Timestamp;

use super::Client;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::{
    command::events::EventReader,
    command::events::{Event, Position},
    coordinator::Core,
    error::Result,
};

/// The events of watched collections, in an order that agrees with that of the commits: see
/// `docs/change-streams.md`.
#[derive(Clone, Copy)]
pub struct Changes<'a> {
    core: &'a Arc<Core>,
}

impl Changes<'_> {
    /// Position behind all events that are committed now.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be reached.
    pub async fn now(&self) -> Result<Position> {
        EventReader::of(self.core).last_position().await
    }

    /// In front of the first event that is not earlier than this.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with code 286 if events that may be among them were removed.
    pub async fn from(&self, time: Timestamp) -> Result<Position> {
        EventReader::of(self.core).position_at(time).await
    }

    /// The next events behind a position, at most `limit`; none if there are none yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with code 286 if the next one was removed.
    pub async fn after(&self, position: Position, limit: u32) -> Result<Vec<Event>> {
        EventReader::of(self.core).events_after(position, limit).await
    }

    /// The event right in front of a position. `None`: it was removed, or there is none.
    ///
    /// # Errors
    /// As [`Changes::after`].
    pub async fn at(&self, position: Position) -> Result<Option<Event>> {
        EventReader::of(self.core).event_at(position).await
    }

    /// Waits until there is an event behind the position, until the limit at most. False: there is
    /// none.
    ///
    /// # Errors
    /// As [`Changes::after`].
    pub async fn wait(&self, position: Position, limit: Duration) -> Result<bool> {
        EventReader::of(self.core).await_event(position, tokio::time::Instant::now() + limit).await
    }
}

impl Client {
    /// The events of watched collections.
    pub fn changes(&self) -> Changes<'_> {
        Changes { core: &self.core }
    }
}
