//! A relay in front of a gateway: a port that hands connections on, and that can be shut. Shut, it
//! ends them all and opens none, as a network does that has noticed that a machine is gone.

use std::net::SocketAddr;

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A relay to a gateway. Dropped, it is gone.
pub(crate) struct Relay {
    address: SocketAddr,
    to: watch::Sender<Option<SocketAddr>>,
}

impl Relay {
    /// A relay that is shut.
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (to, target) = watch::channel(None);
        tokio::spawn(hand_on(listener, target));
        Self { address, to }
    }

    /// The address that clients connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn open(&self, to: SocketAddr) {
        self.to.send_replace(Some(to));
    }

    pub(crate) fn shut(&self) {
        self.to.send_replace(None);
    }
}

async fn hand_on(listener: TcpListener, mut target: watch::Receiver<Option<SocketAddr>>) {
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            gone = closed(target.clone()) => return gone,
        };
        let to = *target.borrow_and_update();
        if let Some(to) = to {
            tokio::spawn(connect(client, to, target.clone()));
        }
    }
}

async fn closed(mut target: watch::Receiver<Option<SocketAddr>>) {
    while target.changed().await.is_ok() {}
}

async fn connect(mut client: TcpStream, to: SocketAddr, mut target: watch::Receiver<Option<SocketAddr>>) {
    let talk = async {
        if let Ok(mut gateway) = TcpStream::connect(to).await {
            // The side that is still there notices when the other one ends.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut gateway).await;
        }
    };
    tokio::select! {
        () = talk => {}
        _ = target.wait_for(|now| *now != Some(to)) => {}
    }
}
