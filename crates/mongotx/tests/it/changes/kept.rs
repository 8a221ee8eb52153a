//! Old events that are removed, and positions in them.

use bson::{Document, Timestamp, doc};
use mongotx::{ChangeStreams, ClientOptions, Position};

use super::Watched;
use crate::common::until;

#[tokio::test]
async fn the_oldest_events_go_and_whoever_wants_them_gets_an_error() {
    let options =
        ClientOptions { change_streams: ChangeStreams::All, change_events: 300, ..crate::quiet::at_read_committed() };
    let place = Watched::with("kept", options).await;
    let (a, start) = (place.coll("a"), place.now().await);
    let documents: Vec<Document> = (0..1_200).map(|id| doc! {"_id": id}).collect();
    a.insert_many(&documents[..600]).await.unwrap();
    let middle = place.now().await;
    let seen = place.since(start).await;
    assert_eq!(seen.len(), 600);
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    a.insert_many(&documents[600..]).await.unwrap();
    let lost = until("old events are removed", async || place.client.changes().after(start, 10).await.err()).await;
    assert_eq!(lost.code(), Some(286), "{lost}");
    let last = place.now().await;
    assert_eq!(last.number, middle.number + 600);
    let kept = Position { number: last.number - 300, ..last };
    assert_eq!(place.since(kept).await.len(), 300);
    assert!(place.client.changes().at(seen[0].position).await.unwrap().is_none());
    // The same by time.
    let early = place.client.changes().from(Timestamp { time: 1, increment: 0 }).await.unwrap_err();
    assert_eq!(early.code(), Some(286), "{early}");
    let late = place.client.changes().from(Timestamp { time: u32::MAX, increment: 0 }).await.unwrap();
    assert_eq!(late, last);
}

#[tokio::test]
async fn a_moment_is_a_position() {
    let place = Watched::new("kept_time").await;
    let (a, start) = (place.coll("a"), place.now().await);
    let zero = Timestamp { time: 1, increment: 0 };
    assert_eq!(place.client.changes().from(zero).await.unwrap(), start);
    for id in 0..5 {
        a.insert_one(&doc! {"_id": id}).await.unwrap();
    }
    let events = place.since(start).await;
    assert_eq!(place.client.changes().from(zero).await.unwrap(), start);
    for (at, event) in events.iter().enumerate() {
        let time = event.document.get_timestamp("clusterTime").unwrap();
        let found = place.client.changes().from(time).await.unwrap();
        assert_eq!(found.number, start.number + at as i64);
        let behind = Timestamp { increment: time.increment + 1, ..time };
        assert_eq!(place.client.changes().from(behind).await.unwrap(), event.position);
    }
}

/// Positions of events that were dropped as a whole are no positions in those that came after them.
#[tokio::test]
async fn events_that_begin_anew_are_not_taken_for_others() {
    let place = Watched::new("kept_anew").await;
    let (a, start) = (place.coll("a"), place.now().await);
    a.insert_one(&doc! {"_id": 1}).await.unwrap();
    let old = place.since(start).await[0].position;
    assert!(place.client.flush(std::time::Duration::from_secs(20)).await);
    let records = place.plain.client().database(&place.options.tx_database);
    records.collection::<Document>("events").drop().await.unwrap();
    let other = place.another().await;
    for id in 2..5 {
        other.database(place.plain.name()).collection::<Document>("a").insert_one(&doc! {"_id": id}).await.unwrap();
    }
    for position in [start, old] {
        let lost = place.client.changes().after(position, 10).await.unwrap_err();
        assert_eq!(lost.code(), Some(286), "{lost}");
        let lost = place.client.changes().wait(position, std::time::Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(lost.code(), Some(286), "{lost}");
    }
    assert_eq!(place.since(place.now().await).await.len(), 0);
}
