//! Futures that are dropped at every place: the connection is not used again, and its place in the
//! pool is free.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::Ordering::SeqCst,
    task::Poll,
};

use bson::rawdoc;
use mongowire::PoolLimits;
use tokio::io::AsyncWriteExt;

use crate::{
    LIMIT,
    fake::{Fake, bytes},
    limits, pool,
};

/// Runs a future until another one is done, and drops it.
async fn until(work: impl Future, end: impl Future) {
    let (mut work, mut end) = (pin!(work), pin!(end));
    poll_fn(|cx| {
        assert!(work.as_mut().poll(cx).is_pending(), "it has ended too early");
        end.as_mut().poll(cx).map(drop)
    })
    .await;
}

/// The future is dropped after so many bytes of the answer. The next command gets its own answer,
/// over another connection.
#[tokio::test]
async fn a_command_that_is_given_up_takes_its_connection_with_it() {
    for sent in [0, 1, 16, 17, 25] {
        let (fake, settings) = Fake::new().await;
        let (pool, begun) = pool(settings, limits(1));
        let server = async {
            let mut first = fake.greet().await;
            let (_, id) = first.question().await.unwrap();
            first.stream.write_all(&bytes(&rawdoc! {"ok": 1.0, "whose": "first"}, id)[..sent]).await.unwrap();
            first
        };
        let given_up = async {
            let mut lent = pool.get().await.unwrap();
            lent.run_command(Some("d"), &rawdoc! {"ping": 1}, &[], LIMIT).await.unwrap();
        };
        let mut first = None;
        until(given_up, async { first = Some(server.await) }).await;
        let mut first = first.unwrap();
        assert!(first.question().await.is_none(), "the connection is closed");
        let second = async {
            let mut second = fake.greet().await;
            let (_, id) = second.question().await.unwrap();
            second.answer(&rawdoc! {"ok": 1.0, "whose": "second"}, id).await;
        };
        let asked = async {
            let mut lent = pool.get().await.unwrap();
            assert_eq!((lent.number(), begun.load(SeqCst)), (3, 4));
            lent.run_command(Some("d"), &rawdoc! {"ping": 1}, &[], LIMIT).await.unwrap()
        };
        let (answer, ()) = tokio::join!(asked, second);
        assert_eq!(answer.get_str("whose").unwrap(), "second", "after {sent} bytes");
    }
}

#[tokio::test]
async fn a_connection_that_is_given_up_while_it_is_made_leaves_its_place() {
    let (fake, settings) = Fake::new().await;
    let (pool, begun) = pool(settings, limits(1));
    until(async { drop(pool.get().await.unwrap()) }, async { drop(fake.accept().await.question().await) }).await;
    assert_eq!(begun.load(SeqCst), 1, "begun, and not made");
    let (lent, _client) = tokio::join!(pool.get(), fake.greet());
    assert_eq!((lent.unwrap().number(), begun.load(SeqCst)), (2, 3));
}

#[tokio::test]
async fn whoever_stops_waiting_for_a_connection_takes_none() {
    let (fake, settings) = Fake::new().await;
    let (pool, begun) = pool(settings, PoolLimits { most: 1, ..limits(1) });
    let (lent, client) = tokio::join!(pool.get(), fake.greet());
    let lent = lent.unwrap();
    let mut polled = false;
    let once = poll_fn(|cx| {
        if polled {
            return Poll::Ready(());
        }
        polled = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    until(async { drop(pool.get().await) }, once).await;
    drop(lent);
    assert_eq!((pool.get().await.unwrap().number(), begun.load(SeqCst)), (1, 2));
    drop(client);
}
