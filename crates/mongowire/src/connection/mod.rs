//! One connection to a server: each request has one answer, one after the other.
//!
//! | file | what |
//! | --- | --- |
//! | `stream` | TCP, a Unix socket, TLS |
//! | `greeting` | `hello` |
//! | `login` | the password |

mod greeting;
mod login;
mod stream;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
    time::Duration,
};

use bson::{RawDocument, RawDocumentBuf};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use self::stream::{FIRST_BYTES, Stream};
pub use self::{
    greeting::Greeting,
    stream::{read_payload, set_socket_options},
};
use crate::{
    failure::{Failure, Refusal, UnreachableReason},
    request::Sequence,
    settings::Settings,
    wire::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, WireError, op_msg},
};

/// Buffers that have grown beyond this are given back after a message.
const KEPT_BYTES: usize = 64 * 1024;
/// Bytes that one read of the socket requests. Most answers are shorter.
const READ_BYTES: usize = 8 * 1024;

/// The longest that commands may be which are sent in one write: shorter than what any network
/// takes at once, so that a server which is answering the first of them need not be listened to
/// before the last one is on its way.
pub const MAX_RUN_TOGETHER_BYTES: usize = 16 * 1024;

/// Numbers of messages, of all connections. The official driver counts from 0: in what goes over a
/// network the two are not taken for each other.
static LAST_ID: AtomicI32 = AtomicI32::new(1 << 30);

/// An open connection: greeted by the server, and logged in if the settings name a user.
pub struct Connection {
    stream: Stream,
    settings: Arc<Settings>,
    greeting: Greeting,
    number: u64,
    /// A command is under way, or was when it was given up: what comes next is not known.
    busy: bool,
    message: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    /// Connects, greets and logs in, all within [`Settings::connect_limit`]. `number`: how the
    /// connection is called.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::Server::standalone().await?;
    /// # let settings = mongowire::Settings::new(mongowire::Address::Tcp("127.0.0.1".to_owned(), server.port()));
    /// use mongowire::Connection;
    ///
    /// let connection = Connection::open(settings.into(), 1).await?;
    /// assert!(connection.is_usable() && connection.number() == 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Failure::Unreachable`], [`Failure::Login`].
    pub async fn open(settings: Arc<Settings>, number: u64) -> Result<Self, Failure> {
        let (address, limit) = (settings.address.clone(), settings.connect_limit);
        match timeout(limit, Self::open_slowly(settings, number)).await {
            Ok(opened) => opened.map_err(|failure| failure.while_opening(&address)),
            Err(_) => Err(Failure::Unreachable { address, reason: UnreachableReason::Slow(limit) }),
        }
    }

    async fn open_slowly(settings: Arc<Settings>, number: u64) -> Result<Self, Failure> {
        let stream = Stream::open(&settings).await.map_err(Failure::unsent)?;
        let greeting = Greeting::read(RawDocumentBuf::new());
        let (message, answer) = (Vec::new(), Vec::new());
        let mut opened = Self { stream, settings, greeting, number, busy: false, message, answer };
        let hello = opened.exchange(Some("admin"), &greeting::hello(&opened.settings.clone()), &[]).await?;
        if let Some(refused) = Refusal::of(&hello) {
            let address = opened.settings.address.clone();
            let why = format!("it does not greet: {} (code {})", refused.message, refused.code);
            return Err(Failure::Unreachable { address, reason: UnreachableReason::Greeting(why) });
        }
        opened.greeting = Greeting::read(hello);
        opened.log_in().await?;
        Ok(opened)
    }

    /// Answer of the server to `hello`, as it was when the connection was opened.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Number of the connection: the one that was passed to [`Connection::open`], for traces.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The connection can be used: its last command was answered, and nothing has come since.
    pub fn is_usable(&self) -> bool {
        !self.busy && self.stream.is_quiet()
    }

    /// Returns true if the last command was answered, so that the connection can be used again.
    pub(crate) fn is_answered(&self) -> bool {
        !self.busy
    }

    /// Sends a command once and waits for its answer, `ok: 0` included. `database` is added to it;
    /// `None`: it is in the body. After an error (but [`Failure::TooLong`]), or when the future is
    /// dropped, the connection is of no use any more.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::Server::standalone().await?;
    /// # let settings = mongowire::Settings::new(mongowire::Address::Tcp("127.0.0.1".to_owned(), server.port()));
    /// # let mut connection = mongowire::Connection::open(settings.into(), 1).await?;
    /// use std::time::Duration;
    ///
    /// use bson::{doc, rawdoc};
    /// use mongowire::{Refusal, Sequence};
    ///
    /// let documents = Sequence::new("documents", &[doc! {"_id": 1}, doc! {"_id": 1}])?;
    /// let limit = Duration::from_secs(60);
    /// let answer = connection.run_command(Some("shop"), &rawdoc! {"insert": "carts"}, &[documents], limit).await?;
    /// assert_eq!(answer.get_i32("n")?, 1); // the second is a duplicate: `writeErrors` says so
    ///
    /// let answer = connection.run_command(Some("shop"), &rawdoc! {"unknown": 1}, &[], limit).await?;
    /// assert_eq!(Refusal::of(&answer).map(|refusal| refusal.code), Some(59));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of a connection that has been opened; [`Failure::is_maybe_done`] says whether the
    /// command may have been carried out.
    pub async fn run_command(
        &mut self,
        database: Option<&str>,
        body: &RawDocument,
        sequences: &[Sequence],
        limit: Duration,
    ) -> Result<RawDocumentBuf, Failure> {
        timeout(limit, self.exchange(database, body, sequences)).await.unwrap_or(Err(Failure::Late(limit)))
    }

    /// Sends commands in one write, and waits for all of their answers, in their order, which is
    /// the order in which the server carries them out. Each names its database. After an error any
    /// of them may have been carried out, so that only the first should change something. Errors
    /// are as those of [`Connection::run_command`].
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = local_mongod::Server::standalone().await?;
    /// # let settings = mongowire::Settings::new(mongowire::Address::Tcp("127.0.0.1".to_owned(), server.port()));
    /// # let mut connection = mongowire::Connection::open(settings.into(), 1).await?;
    /// use bson::rawdoc;
    ///
    /// let (ping, hello) = (rawdoc! {"ping": 1}, rawdoc! {"hello": 1});
    /// let limit = std::time::Duration::from_secs(60);
    /// let answers = connection.run_together(&[("admin", &ping), ("admin", &hello)], limit).await?;
    /// assert!(answers[1].get_bool("isWritablePrimary")?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Failure::TooLong`], and nothing was sent: they are longer than [`MAX_RUN_TOGETHER_BYTES`].
    pub async fn run_together(
        &mut self,
        commands: &[(&str, &RawDocument)],
        limit: Duration,
    ) -> Result<Vec<RawDocumentBuf>, Failure> {
        timeout(limit, self.exchange_all(commands)).await.unwrap_or(Err(Failure::Late(limit)))
    }

    async fn exchange_all(&mut self, commands: &[(&str, &RawDocument)]) -> Result<Vec<RawDocumentBuf>, Failure> {
        if self.busy {
            return Err(Failure::Broken);
        }
        let (mut all, mut ids) = (Vec::new(), Vec::with_capacity(commands.len()));
        for (database, body) in commands {
            ids.push(self.encode(Some(database), body, &[]));
            let bytes = all.len() + self.message.len();
            if bytes > MAX_RUN_TOGETHER_BYTES {
                self.message = Vec::new();
                return Err(Failure::TooLong { bytes, most: MAX_RUN_TOGETHER_BYTES });
            }
            all.extend_from_slice(&self.message);
        }
        self.message = all;
        self.busy = true;
        // The server may have all of the first commands when a later one is not on its way.
        self.send().await.map_err(|failure| match failure {
            Failure::Unsent(why) => Failure::Lost(why),
            other => other,
        })?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            answers.push(self.receive(id).await?);
        }
        self.end_of_answers()?;
        Ok(answers)
    }

    async fn exchange(
        &mut self,
        database: Option<&str>,
        body: &RawDocument,
        sequences: &[Sequence],
    ) -> Result<RawDocumentBuf, Failure> {
        if self.busy {
            return Err(Failure::Broken);
        }
        let id = self.encode(database, body, sequences);
        let (bytes, most) = (self.message.len(), self.greeting.max_message_bytes.min(MAX_MESSAGE_BYTES));
        if bytes > most {
            self.message = Vec::new();
            return Err(Failure::TooLong { bytes, most });
        }
        self.busy = true;
        self.send().await?;
        let answer = self.receive(id).await?;
        self.end_of_answers()?;
        Ok(answer)
    }

    /// Makes the message of a command, and answers its number.
    fn encode(&mut self, database: Option<&str>, body: &RawDocument, sequences: &[Sequence]) -> i32 {
        let request_id = LAST_ID.fetch_add(1, Relaxed).wrapping_add(1);
        let appended = &*self.settings.appended;
        let command = op_msg::Command { request_id, database, body, appended, sequences };
        op_msg::encode_command(&command, &mut self.message);
        request_id
    }

    /// Whatever happens before the last byte is taken, the server cannot know the whole command.
    async fn send(&mut self) -> Result<(), Failure> {
        self.stream.write_all(&self.message).await.map_err(Failure::unsent)?;
        self.stream.flush().await.map_err(Failure::lost)?;
        if self.message.capacity() > KEPT_BYTES {
            self.message = Vec::new();
        }
        Ok(())
    }

    /// The answer to the message of this number. What has come of a later one stays.
    async fn receive(&mut self, id: i32) -> Result<RawDocumentBuf, Failure> {
        self.read_to(HEADER_BYTES).await?;
        let header = self.answer.first_chunk().ok_or(WireError::Malformed("a message without a header"))?;
        let header = Header::decode(header)?;
        if header.response_to != id {
            return Err(Failure::OutOfStep);
        }
        self.read_to(header.length_bytes).await?;
        let answer = op_msg::decode_answer(&header, &self.answer[HEADER_BYTES..header.length_bytes])?;
        self.answer.drain(..header.length_bytes);
        Ok(answer)
    }

    /// All commands are answered, and nothing else has come.
    fn end_of_answers(&mut self) -> Result<(), Failure> {
        if !self.answer.is_empty() {
            return Err(Failure::OutOfStep);
        }
        if self.answer.capacity() > KEPT_BYTES {
            self.answer = Vec::new();
        }
        self.busy = false;
        Ok(())
    }

    /// Reads until at least `bytes` bytes of the answer are there. Memory is taken as they come.
    async fn read_to(&mut self, bytes: usize) -> Result<(), Failure> {
        while self.answer.len() < bytes {
            let left = (bytes - self.answer.len()).max(READ_BYTES);
            self.answer.reserve(left.min(FIRST_BYTES.max(self.answer.len())));
            if self.stream.read_buf(&mut self.answer).await.map_err(Failure::lost)? == 0 {
                return Err(Failure::lost(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(())
    }
}
