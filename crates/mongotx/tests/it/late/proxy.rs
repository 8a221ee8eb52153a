//! A network that delays one message: a port between a client and its server that hands everything
//! on but the nth command, which arrives when the test says so, even if its sender has hung up long
//! ago. It can break its clients' connections, and lose the answer to what it held.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bson::Document;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{oneshot, watch},
    task::JoinHandle,
};

/// The longest that a message is waited for.
const LIMIT: Duration = Duration::from_secs(60);
/// Commands by which a driver looks after its connections.
const IDLE_TALK: [&str; 6] = ["hello", "isMaster", "ismaster", "ping", "endSessions", "killCursors"];
const OP_MSG: i32 = 2013;

/// State of the message that is to be delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// None is, or it has not come yet.
    Awaited,
    Held,
    Released,
    Answered,
}

struct State {
    /// Commands that still pass before one is held; `None`: all pass.
    left: Option<usize>,
    /// The `find` is held that is the first on the second collection after one on the first.
    behind: Option<(&'static str, &'static str)>,
    /// Name of the command that was held.
    name: String,
    request: i32,
    /// The answer to it is not handed on.
    loses_answer: bool,
    /// A field that the server does not see where it is to be renamed.
    hidden: Option<&'static str>,
}

/// Dropped, it accepts no more connections.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Shared,
    accepting: JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    stage: watch::Sender<Stage>,
    /// For each connection of a client: the channel by which it is ordered to break, which brings
    /// the channel for the report that it is broken.
    breaks: Arc<Mutex<Vec<oneshot::Sender<oneshot::Sender<()>>>>>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            State { left: None, behind: None, name: String::new(), request: 0, loses_answer: false, hidden: None };
        let shared = Shared {
            state: Arc::new(Mutex::new(state)),
            stage: watch::Sender::new(Stage::Awaited),
            breaks: Arc::default(),
        };
        let accepting = tokio::spawn(accept(listener, server, shared.clone()));
        Self { address, shared, accepting }
    }

    pub(crate) fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address)
    }

    /// Lets `before` commands pass and holds the next one.
    pub(crate) fn hold_after(&self, before: usize) {
        self.shared.stage.send_replace(Stage::Awaited);
        self.shared.state.lock().unwrap().left = Some(before);
    }

    /// Lets commands pass until a `find` on the first collection has, and holds the next one on the
    /// second.
    pub(crate) fn hold_behind(&self, first: &'static str, second: &'static str) {
        self.shared.stage.send_replace(Stage::Awaited);
        self.shared.state.lock().unwrap().behind = Some((first, second));
    }

    /// Holds nothing that comes from now on.
    pub(crate) fn hold_nothing(&self) {
        self.shared.state.lock().unwrap().left = None;
    }

    /// Hides this field from every `$rename` from now on.
    pub(crate) fn hide_from_renames(&self, name: &'static str) {
        self.shared.state.lock().unwrap().hidden = Some(name);
    }

    /// The name of the command that is held, once one is.
    pub(crate) async fn until_held(&self) -> String {
        self.until(Stage::Held).await;
        self.shared.state.lock().unwrap().name.clone()
    }

    /// Lets the held command go on to the server, and waits for the server's answer.
    pub(crate) async fn deliver(&self) {
        self.shared.stage.send_replace(Stage::Released);
        let answered = tokio::time::timeout(LIMIT, self.until(Stage::Answered)).await;
        answered.expect("the server does not answer the late command");
    }

    /// Breaks the connections that clients have now. What they have sent still arrives.
    pub(crate) async fn break_connections(&self) {
        let all: Vec<_> = self.shared.breaks.lock().unwrap().drain(..).collect();
        for one in all {
            let (broken, is_broken) = oneshot::channel();
            // Connections that have ended by themselves do not hear it.
            let _ = one.send(broken);
            let _ = is_broken.await;
        }
    }

    /// Lets the held command go on to the server, and breaks the connections of clients when the
    /// server has answered it.
    pub(crate) async fn deliver_and_lose_the_answer(&self) {
        self.shared.state.lock().unwrap().loses_answer = true;
        self.deliver().await;
        self.break_connections().await;
    }

    async fn until(&self, stage: Stage) {
        self.shared.until(stage).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    async fn until(&self, stage: Stage) {
        self.stage.subscribe().wait_for(|now| *now >= stage).await.unwrap();
    }

    /// Returns true if this is the message that is delayed.
    fn is_held(&self, message: &[u8]) -> bool {
        let command = command(message).filter(|(name, _)| !IDLE_TALK.contains(&name.as_str()));
        let Some((name, coll)) = command else { return false };
        let mut state = self.state.lock().unwrap();
        if let Some((first, second)) = state.behind.filter(|_| name == "find") {
            if coll == first && first != second {
                state.behind = Some((second, second));
            } else if coll == second && first == second {
                state.left = Some(0);
            }
        }
        match state.left {
            Some(0) => {
                let hidden = state.hidden;
                *state =
                    State { left: None, behind: None, name, request: number(message, 4), loses_answer: false, hidden };
                true
            }
            Some(left) => {
                state.left = Some(left - 1);
                false
            }
            None => false,
        }
    }

    fn hide_from_renames(&self, message: &mut [u8]) {
        let Some(name) = self.state.lock().unwrap().hidden else { return };
        let (rename, field) = (b"\x03$rename\0", [b"\x02", name.as_bytes(), b"\0"].concat());
        let mut from = 0;
        while let Some(found) = message[from..].windows(rename.len()).position(|bytes| bytes == rename) {
            from += found + rename.len();
            let targets = from..from + number(message, from) as usize;
            let place = message[targets.clone()].windows(field.len()).position(|bytes| bytes == field);
            if let Some(place) = place {
                message[targets.start + place + 1] = b'z';
            }
        }
    }

    /// Notes an answer of the server. Returns true if the client gets it.
    fn note_answer(&self, message: &[u8]) -> bool {
        let state = self.state.lock().unwrap();
        let answers_it = state.request == number(message, 8);
        if answers_it {
            self.stage.send_if_modified(|stage| {
                let was_released = *stage == Stage::Released;
                if was_released {
                    *stage = Stage::Answered;
                }
                was_released
            });
        }
        !(answers_it && state.loses_answer)
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, shared: Shared) {
    while let Ok((client, _)) = listener.accept().await {
        if let Ok(upstream) = TcpStream::connect(server).await {
            let ((from, back), (answers, to)) = (client.into_split(), upstream.into_split());
            let unanswered = watch::Sender::new(0);
            tokio::spawn(pass_commands(from, to, unanswered.clone(), shared.clone()));
            tokio::spawn(pass_answers(answers, back, unanswered, shared.clone()));
        }
    }
}

async fn pass_commands(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    unanswered: watch::Sender<i32>,
    shared: Shared,
) {
    while let Some(mut message) = read_message(&mut from).await {
        shared.hide_from_renames(&mut message);
        let held = shared.is_held(&message);
        if held {
            // Commands before it on this connection are done when it is held.
            unanswered.subscribe().wait_for(|left| *left == 0).await.unwrap();
            shared.stage.send_replace(Stage::Held);
            shared.until(Stage::Released).await;
        }
        unanswered.send_modify(|left| *left += 1);
        if to.write_all(&message).await.is_err() {
            return;
        }
        if held {
            // The server drops what comes over a connection that is closed before it has looked at
            // it.
            shared.until(Stage::Answered).await;
        }
    }
}

/// Passes answers on, whether or not the client is still there.
async fn pass_answers(
    mut answers: OwnedReadHalf,
    back: OwnedWriteHalf,
    unanswered: watch::Sender<i32>,
    shared: Shared,
) {
    let (tell, mut breaks) = oneshot::channel::<oneshot::Sender<()>>();
    shared.breaks.lock().unwrap().push(tell);
    let mut back = Some(back);
    loop {
        let message = tokio::select! {
            biased;
            broken = &mut breaks, if back.is_some() => {
                // The client sees that the connection has ended.
                back = None;
                let _ = broken.map(|broken| broken.send(()));
                continue;
            }
            message = read_message(&mut answers) => message,
        };
        let Some(message) = message else { return };
        unanswered.send_modify(|left| *left -= 1);
        if shared.note_answer(&message)
            && let Some(back) = &mut back
        {
            let _ = back.write_all(&message).await;
        }
    }
}

async fn read_message(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut message = vec![0; 16];
    from.read_exact(&mut message).await.ok()?;
    message.resize(usize::try_from(number(&message, 0)).ok()?, 0);
    from.read_exact(&mut message[16..]).await.ok()?;
    Some(message)
}

fn number(message: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(message[at..at + 4].try_into().unwrap())
}

/// The name of the command in the message's body, which drivers send first, and the collection that
/// it is for, if it is for one.
fn command(message: &[u8]) -> Option<(String, String)> {
    if number(message, 12) != OP_MSG || message.get(20) != Some(&0) {
        return None;
    }
    let body: Document = bson::deserialize_from_slice(&message[21..21 + number(message, 21) as usize]).ok()?;
    let (name, coll) = body.iter().next()?;
    Some((name.clone(), coll.as_str().unwrap_or_default().to_owned()))
}
