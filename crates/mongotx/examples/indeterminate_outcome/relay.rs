//! A relay between a client and a server that loses chosen messages. Connections stay open: to the
//! client a lost message looks like a slow network.

use std::{error::Error, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// Messages that the relay does not pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loses {
    Nothing,
    /// Messages from the client to the server.
    Requests,
    /// Messages from the server to the client.
    Answers,
}

/// A relay that runs until it is dropped.
pub(crate) struct Relay {
    uri: String,
    loses: Arc<watch::Sender<Loses>>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Starts a relay to the one server of a connection string.
    pub(crate) async fn start(uri: &str) -> Result<Self, Box<dyn Error>> {
        let (scheme, rest) = uri.split_once("://").ok_or("a connection string begins with mongodb://")?;
        let (authority, options) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, server) = authority.rsplit_once('@').map_or(("", authority), |(user, server)| (user, server));
        let server = if server.contains(':') { server.to_owned() } else { format!("{server}:27017") };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = if user.is_empty() { "" } else { "@" };
        let uri = format!("{scheme}://{user}{at}{}{options}", listener.local_addr()?);
        let loses = Arc::new(watch::Sender::new(Loses::Nothing));
        let accepting = tokio::spawn(accept(listener, server, Arc::clone(&loses)));
        Ok(Self { uri, loses, accepting })
    }

    /// The server's connection string, by way of the relay.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// Loses these messages from now on.
    pub(crate) fn lose(&self, loses: Loses) {
        self.loses.send_replace(loses);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: String, loses: Arc<watch::Sender<Loses>>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(&server).await else { continue };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::spawn(pass_on(from_client, to_server, loses.subscribe(), Loses::Requests));
        tokio::spawn(pass_on(from_server, to_client, loses.subscribe(), Loses::Answers));
    }
}

/// Passes bytes on in one direction, but for the time in which this direction's messages are lost.
async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, loses: watch::Receiver<Loses>, direction: Loses) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        if *loses.borrow() != direction && to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
