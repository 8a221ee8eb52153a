//! A port between a gateway and its server that hands everything on, until the test wants messages
//! with some text in them to get lost: their connections stay open, and nothing goes to the server
//! over them any more.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
};

/// Dropped, it ends with its connections.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    to: SocketAddr,
    /// Messages with this text can get lost.
    text: &'static str,
    loses: AtomicBool,
    /// A permit for each connection over which one was lost.
    lost: Semaphore,
}

impl Proxy {
    /// A port in front of the server at `to`, where messages with this text can get lost.
    pub async fn start(to: SocketAddr, text: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { to, text, loses: AtomicBool::new(false), lost: Semaphore::new(0) });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, serving }
    }

    pub fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address)
    }

    /// From now on messages with the text get lost, or none do.
    pub fn lose(&self, loses: bool) {
        self.shared.loses.store(loses, SeqCst);
    }

    /// Waits until one more message has got lost.
    pub async fn until_lost(&self) {
        self.shared.lost.acquire().await.unwrap().forget();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(hand_on(client, Arc::clone(&shared)));
    }
}

async fn hand_on(client: TcpStream, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(shared.to).await else { return };
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let forth = async {
        let mut bytes = vec![0; 64 * 1024];
        let mut is_lost = false;
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            let has_text = bytes[..count].windows(shared.text.len()).any(|part| part == shared.text.as_bytes());
            if !is_lost && has_text && shared.loses.load(SeqCst) {
                is_lost = true;
                shared.lost.add_permits(1);
            }
            if !is_lost && to_server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    };
    tokio::select! {
        () = forth => {}
        () = back => {}
    }
}
