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
    options::LONGEST_WAIT,
};

/// The events of watched collections, in an order that agrees with that of the commits. Each change
/// of a document that was committed through MongoTx has one; what other programs write to the
/// server has none. A program follows them from a [`Position`], which it stores with what it has
/// done, to go on there after a restart.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// use std::time::Duration;
///
/// use bson::doc;
/// use mongotx::{ChangeStreams, Client, ClientOptions};
///
/// # let server = local_mongod::Server::standalone().await.expect("a mongod");
/// # let uri = &server.uri();
/// let options = ClientOptions { change_streams: ChangeStreams::All, ..ClientOptions::default() };
/// let client = Client::connect_with(uri, options).await?;
/// let changes = client.changes();
/// let begin = changes.now().await?;
///
/// client.database("bank").collection("accounts").insert_one(&doc! {"_id": 1}).await?;
/// assert!(changes.wait(begin, Duration::from_secs(60)).await?);
/// let events = changes.after(begin, 100).await?;
/// assert_eq!(events[0].document.get_str("operationType").unwrap(), "insert");
/// assert_eq!(events[0].document.get_document("documentKey").unwrap(), &doc! {"_id": 1});
///
/// // The next time it goes on here:
/// let position = events[0].position;
/// assert!(changes.after(position, 100).await?.is_empty());
/// assert!(!changes.wait(position, Duration::ZERO).await?);
///
/// // The event in front of a position, and the position in front of a time:
/// assert_eq!(changes.at(position).await?.expect("it is kept").document, events[0].document);
/// let time = events[0].document.get_timestamp("clusterTime").unwrap();
/// assert_eq!(changes.from(time).await?, begin);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct Changes<'a> {
    core: &'a Arc<Core>,
}

impl Changes<'_> {
    /// Position behind all events that are committed now.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let bank = client.database("bank");
    /// # let watched = doc! {"enabled": true};
    /// # bank.create_collection("accounts").option("changeStreamPreAndPostImages", watched).await?;
    /// # let accounts = bank.collection("accounts");
    /// # let changes = client.changes();
    /// let before = changes.now().await?;
    /// accounts.insert_one(&doc! {"_id": 1}).await?;
    /// assert_eq!(changes.now().await?.number, before.number + 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the server cannot be reached.
    pub async fn now(&self) -> Result<Position> {
        EventReader::of(self.core).last_position().await
    }

    /// In front of the first event that is not earlier than this.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let bank = client.database("bank");
    /// # let watched = doc! {"enabled": true};
    /// # bank.create_collection("accounts").option("changeStreamPreAndPostImages", watched).await?;
    /// # let accounts = bank.collection("accounts");
    /// # let changes = client.changes();
    /// let before = changes.now().await?;
    /// accounts.insert_one(&doc! {"_id": 1}).await?;
    /// let events = changes.after(before, 1).await?;
    /// let time = events[0].document.get_timestamp("clusterTime").unwrap();
    /// assert_eq!(changes.from(time).await?, before); // the insert comes next
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with code 286 if events that may be among them were removed.
    pub async fn from(&self, time: Timestamp) -> Result<Position> {
        EventReader::of(self.core).position_at(time).await
    }

    /// The next events behind a position, at most `limit`; none if there are none yet.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let bank = client.database("bank");
    /// # let watched = doc! {"enabled": true};
    /// # bank.create_collection("accounts").option("changeStreamPreAndPostImages", watched).await?;
    /// # let accounts = bank.collection("accounts");
    /// # let changes = client.changes();
    /// let mut position = changes.now().await?;
    /// accounts.insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}, doc! {"_id": 3}]).await?;
    /// let mut ids = Vec::new();
    /// loop {
    ///     let events = changes.after(position, 2).await?;
    ///     let Some(last) = events.last() else { break };
    ///     position = last.position; // to be stored with what was done
    ///     ids.extend(events.iter().map(|event| event.document.get_document("documentKey").unwrap().clone()));
    /// }
    /// assert_eq!(ids, [doc! {"_id": 1}, doc! {"_id": 2}, doc! {"_id": 3}]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with code 286 if the next one was removed.
    pub async fn after(&self, position: Position, limit: u32) -> Result<Vec<Event>> {
        EventReader::of(self.core).events_after(position, limit).await
    }

    /// The event right in front of a position. `None`: it was removed, or there is none.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let bank = client.database("bank");
    /// # let watched = doc! {"enabled": true};
    /// # bank.create_collection("accounts").option("changeStreamPreAndPostImages", watched).await?;
    /// # let accounts = bank.collection("accounts");
    /// # let changes = client.changes();
    /// accounts.insert_one(&doc! {"_id": 1}).await?;
    /// let last = changes.at(changes.now().await?).await?.expect("an event that is kept");
    /// assert_eq!(last.document.get_str("operationType").unwrap(), "insert");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Changes::after`].
    pub async fn at(&self, position: Position) -> Result<Option<Event>> {
        EventReader::of(self.core).event_at(position).await
    }

    /// Waits until there is an event behind the position, until the limit at most. False: there is
    /// none.
    ///
    /// ```
    /// # use bson::doc;
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// # let bank = client.database("bank");
    /// # let watched = doc! {"enabled": true};
    /// # bank.create_collection("accounts").option("changeStreamPreAndPostImages", watched).await?;
    /// # let accounts = bank.collection("accounts");
    /// # let changes = client.changes();
    /// # use std::time::Duration;
    /// let position = changes.now().await?;
    /// assert!(!changes.wait(position, Duration::from_millis(1)).await?);
    /// accounts.insert_one(&doc! {"_id": 1}).await?;
    /// assert!(changes.wait(position, Duration::from_secs(60)).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Changes::after`].
    pub async fn wait(&self, position: Position, limit: Duration) -> Result<bool> {
        EventReader::of(self.core).await_event(position, tokio::time::Instant::now() + limit.min(LONGEST_WAIT)).await
    }
}

impl Client {
    /// Handle on the events of watched collections; sends nothing. See [`Changes`].
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongotx::Result<()> {
    /// # local_mongod::example!(client);
    /// let now = client.changes().now().await?;
    /// assert!(client.changes().after(now, 100).await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn changes(&self) -> Changes<'_> {
        Changes { core: &self.core }
    }
}
