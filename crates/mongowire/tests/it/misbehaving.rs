//! Servers that send no answer, or another one than the command's: each is an error within its time
//! limit, and says what is known of the command's outcome.

use std::time::Duration;

use bson::rawdoc;
use mongowire::{Connection, Failure, wire::WireError};
use tokio::io::AsyncWriteExt;

use crate::{
    LIMIT,
    fake::{Fake, bytes},
};

const SHORT: Duration = Duration::from_millis(50);

/// Pings a server that answers these bytes to its first command, and stays there.
async fn failure_of(answer: impl Fn(i32) -> Vec<u8> + Send + 'static, limit: Duration) -> Failure {
    let (fake, settings) = Fake::new().await;
    let server = tokio::spawn(async move {
        let mut client = fake.greet().await;
        let (_, id) = client.question().await.unwrap();
        client.stream.write_all(&answer(id)).await.unwrap();
        // Until the client has gone.
        assert!(client.question().await.is_none());
    });
    let mut connection = Connection::open(settings.into(), 1).await.unwrap();
    let failure = connection.run_command(Some("admin"), &rawdoc! {"ping": 1}, &[], limit).await.unwrap_err();
    assert!(!connection.is_usable(), "{failure}");
    let again = connection.run_command(Some("admin"), &rawdoc! {"ping": 1}, &[], limit).await.unwrap_err();
    assert!(matches!(again, Failure::Broken) && !again.is_maybe_done());
    drop(connection);
    server.await.unwrap();
    assert!(failure.is_maybe_done(), "{failure}");
    failure
}

fn ok(id: i32) -> Vec<u8> {
    bytes(&rawdoc! {"ok": 1.0}, id)
}

#[tokio::test]
async fn half_an_answer_is_waited_for_no_longer_than_the_limit() {
    for end in [0, 1, 15, 16, 20, 30] {
        let failure = failure_of(move |id| ok(id)[..end].to_vec(), SHORT).await;
        assert!(matches!(failure, Failure::Late(SHORT)), "{end}: {failure}");
    }
}

#[tokio::test]
async fn lengths_that_cannot_be_are_refused() {
    for length in [i32::MIN, -1, 0, 15, 48_000_001, i32::MAX] {
        let with_length = move |id| [&length.to_le_bytes()[..], &ok(id)[4..]].concat();
        let failure = failure_of(with_length, LIMIT).await;
        assert!(matches!(failure, Failure::Garbled(WireError::Length(_))), "{length}: {failure}");
    }
    let longer = |id| [&17_i32.to_le_bytes()[..], &ok(id)[4..17]].concat();
    assert!(matches!(failure_of(longer, LIMIT).await, Failure::Garbled(WireError::Malformed(_))));
}

#[tokio::test]
async fn answers_of_another_form_are_refused() {
    let other_kind = |id| [&ok(id)[..12], &2012_i32.to_le_bytes(), &ok(id)[16..]].concat();
    assert!(matches!(failure_of(other_kind, LIMIT).await, Failure::Garbled(_)));
    let more_to_come = |id| [&ok(id)[..16], &2_u32.to_le_bytes(), &ok(id)[20..]].concat();
    assert!(matches!(failure_of(more_to_come, LIMIT).await, Failure::Garbled(WireError::Flags(2))));
}

#[tokio::test]
async fn answers_to_other_questions_are_none() {
    assert!(matches!(failure_of(|id| ok(id + 1), LIMIT).await, Failure::OutOfStep));
    assert!(matches!(failure_of(|id| [ok(id), ok(id)].concat(), LIMIT).await, Failure::OutOfStep));
    assert!(matches!(failure_of(|id| [ok(id), vec![1]].concat(), LIMIT).await, Failure::OutOfStep));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_may_have_done_it() {
    let (fake, settings) = Fake::new().await;
    let server = tokio::spawn(async move {
        let mut client = fake.greet().await;
        client.question().await.unwrap();
    });
    let mut connection = Connection::open(settings.into(), 1).await.unwrap();
    let failure = connection.run_command(Some("d"), &rawdoc! {"ping": 1}, &[], LIMIT).await.unwrap_err();
    server.await.unwrap();
    assert!(matches!(failure, Failure::Lost(_)) && failure.is_maybe_done(), "{failure}");
}

#[tokio::test]
async fn a_command_that_is_not_taken_to_its_end_is_certain_not_to_be_done() {
    let (fake, settings) = Fake::new().await;
    let server = tokio::spawn(async move {
        // Goes while the command, which is longer than the sockets' buffers, is on its way.
        drop(fake.greet().await);
    });
    let mut connection = Connection::open(settings.into(), 1).await.unwrap();
    let long = rawdoc! {"ping": "x".repeat(40_000_000)};
    let failure = connection.run_command(Some("d"), &long, &[], LIMIT).await.unwrap_err();
    server.await.unwrap();
    assert!(matches!(failure, Failure::Unsent(_)) && !failure.is_maybe_done(), "{failure}");
}

#[tokio::test]
async fn commands_that_are_too_long_are_not_sent_and_harm_nothing() {
    let (fake, settings) = Fake::new().await;
    let server = tokio::spawn(async move {
        let mut client = fake.greet().await;
        let (_, id) = client.question().await.unwrap();
        client.answer(&rawdoc! {"ok": 1.0}, id).await;
    });
    let mut connection = Connection::open(settings.into(), 1).await.unwrap();
    let long = rawdoc! {"ping": "x".repeat(48_000_001)};
    let failure = connection.run_command(Some("d"), &long, &[], LIMIT).await.unwrap_err();
    assert!(matches!(failure, Failure::TooLong { most: 48_000_000, .. }) && !failure.is_maybe_done(), "{failure}");
    connection.run_command(Some("d"), &rawdoc! {"ping": 1}, &[], LIMIT).await.unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_that_accepts_and_does_not_greet_is_unreachable_within_the_limit() {
    let (fake, mut settings) = Fake::new().await;
    settings.connect_limit = SHORT;
    let failure = Connection::open(settings.into(), 1).await.err().unwrap();
    assert!(matches!(failure, Failure::Unreachable { .. }) && !failure.is_maybe_done(), "{failure}");
    assert!(failure.to_string().contains("50ms"), "{failure}");
    drop(fake);
}

#[tokio::test]
async fn a_greeting_that_is_none_is_no_connection() {
    let (fake, settings) = Fake::new().await;
    let server = tokio::spawn(async move {
        let mut client = fake.accept().await;
        client.question().await.unwrap();
        client.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let mut client = fake.accept().await;
        let (_, id) = client.question().await.unwrap();
        client.answer(&rawdoc! {"ok": 0.0, "code": 59, "errmsg": "no such command"}, id).await;
        // No server listens any more.
        drop(fake);
    });
    let settings = std::sync::Arc::new(settings);
    for _ in 0..3 {
        let failure = Connection::open(settings.clone(), 1).await.err().unwrap();
        assert!(matches!(failure, Failure::Unreachable { .. }) && !failure.is_maybe_done(), "{failure}");
    }
    server.await.unwrap();
}

/// The failure of two commands that are sent together to a server which answers with these bytes,
/// given the numbers of both, and ends the connection.
async fn failure_of_two(answer: fn(i32, i32) -> Vec<u8>) -> Failure {
    let (fake, settings) = Fake::new().await;
    let server = tokio::spawn(async move {
        let mut client = fake.greet().await;
        let (first, second) = (client.question().await.unwrap().1, client.question().await.unwrap().1);
        client.stream.write_all(&answer(first, second)).await.unwrap();
    });
    let mut connection = Connection::open(settings.into(), 1).await.unwrap();
    let ping = rawdoc! {"ping": 1};
    let failure = connection.run_together(&[("d", &ping), ("d", &ping)], LIMIT).await.unwrap_err();
    server.await.unwrap();
    assert!(!connection.is_usable(), "{failure}");
    failure
}

#[tokio::test]
async fn answers_to_commands_sent_together_come_in_order_and_whole() {
    assert!(matches!(failure_of_two(|first, second| [ok(second), ok(first)].concat()).await, Failure::OutOfStep));
    let surplus = |first, second| [ok(first), ok(second), vec![1]].concat();
    assert!(matches!(failure_of_two(surplus).await, Failure::OutOfStep));
    for failure in [
        failure_of_two(|first, _| ok(first)).await,
        failure_of_two(|first, second| [&ok(first), &ok(second)[..20]].concat()).await,
    ] {
        assert!(matches!(failure, Failure::Lost(_)) && failure.is_maybe_done(), "{failure}");
    }
}

#[tokio::test]
async fn commands_that_are_too_long_together_are_not_sent_and_harm_nothing() {
    let (fake, settings) = Fake::new().await;
    let server = tokio::spawn(async move {
        let mut client = fake.greet().await;
        let (command, id) = client.question().await.unwrap();
        client.answer(&rawdoc! {"ok": 1.0}, id).await;
        command
    });
    let mut connection = Connection::open(settings.into(), 1).await.unwrap();
    let long = rawdoc! {"long": "x".repeat(mongowire::MAX_RUN_TOGETHER_BYTES / 2)};
    let failure = connection.run_together(&[("d", &long), ("d", &long)], LIMIT).await.unwrap_err();
    let most = mongowire::MAX_RUN_TOGETHER_BYTES;
    assert!(matches!(failure, Failure::TooLong { most: limit, .. } if limit == most), "{failure}");
    assert!(!failure.is_maybe_done());
    connection.run_together(&[("d", &rawdoc! {"ping": 1})], LIMIT).await.unwrap();
    assert_eq!(server.await.unwrap().get_i32("ping").unwrap(), 1);
}

#[tokio::test]
async fn a_connection_that_is_given_up_between_two_answers_is_of_no_use() {
    let (fake, settings) = Fake::new().await;
    let mut connection = {
        let (opened, mut client) = tokio::join!(Connection::open(settings.into(), 1), fake.greet());
        let mut connection = opened.unwrap();
        let ping = rawdoc! {"ping": 1};
        let both: [(&str, &bson::RawDocument); 2] = [("d", &ping), ("d", &ping)];
        let server = async {
            let (_, id) = client.question().await.unwrap();
            client.question().await.unwrap();
            client.answer(&rawdoc! {"ok": 1.0}, id).await;
            // The first answer is read meanwhile.
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        tokio::select! {
            biased;
            answers = connection.run_together(&both, LIMIT) => panic!("{answers:?}"),
            () = server => {}
        }
        connection
    };
    assert!(!connection.is_usable());
    let again = connection.run_together(&[("d", &rawdoc! {"ping": 1})], LIMIT).await.unwrap_err();
    assert!(matches!(again, Failure::Broken), "{again}");
}
