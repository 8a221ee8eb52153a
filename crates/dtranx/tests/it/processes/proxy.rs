//! [`Proxy`]: a proxy to a server that can be cut. All connections through it break then, and new
//! ones are refused until it is mended. Before that, it can lose what the server says.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_cut: AtomicBool,
    is_mute: AtomicBool,
    is_over: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let seen = shared.clone();
        listener.set_nonblocking(true).unwrap();
        thread::spawn(move || {
            while !seen.is_over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) if !seen.is_cut.load(Ordering::Relaxed) => drop(join(&seen, stream, server)),
                    Ok(_) => {}
                    Err(_) => thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Self { address, shared }
    }

    pub(crate) fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::Relaxed);
        self.shared.break_all();
    }

    /// Drops all further bytes of the server.
    pub(crate) fn mute(&self) {
        self.shared.is_mute.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mend(&self) {
        self.shared.is_mute.store(false, Ordering::Relaxed);
        self.shared.is_cut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.break_all();
    }
}

impl Shared {
    fn break_all(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn join(shared: &Arc<Shared>, near: TcpStream, server: SocketAddr) -> std::io::Result<()> {
    near.set_nonblocking(false)?;
    let far = TcpStream::connect(server)?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (here, there) = ((near.try_clone()?, far.try_clone()?), (far.try_clone()?, near.try_clone()?));
    shared.streams.lock().unwrap().extend([near, far]);
    let shared = shared.clone();
    thread::spawn(move || copy(here.0, here.1, || false));
    thread::spawn(move || copy(there.0, there.1, || shared.is_mute.load(Ordering::Relaxed)));
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream, is_mute: impl Fn() -> bool) {
    let mut bytes = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if is_mute() {
            continue;
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
