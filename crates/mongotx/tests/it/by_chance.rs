//! Filters that answer otherwise each time they are asked.

use std::time::Duration;

use bson::doc;
use mongotx::ClientOptions;

use crate::quiet;

/// The look at pending documents asks it, and so does the read.
#[tokio::test]
async fn what_a_sample_shows_is_committed() {
    let writer = quiet::connect(ClientOptions { finish_delay: Duration::from_secs(10), ..quiet::options() }).await;
    let reader = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&writer, 1).await;
    let read = quiet::through(&reader, &coll);
    for n in 2..42 {
        coll.update_many(doc! {"_id": 1}, doc! {"$set": {"n": n}}).await.unwrap();
        let shown = read.find_one(doc! {"$sampleRate": 0.5}).await.unwrap();
        assert!(shown.is_none_or(|shown| shown == doc! {"_id": 1, "n": n}), "at {n}");
    }
}
