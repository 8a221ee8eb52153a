//! Picks a free TCP port on 127.0.0.1.
//!
//! The ports are below the range from which Linux takes the ports of outgoing connections, so that
//! no client takes the port of a server that was killed and is about to be restarted. Another
//! process can still take a port between the look and the use: the starter of the server then tries
//! another one.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;

const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;
const ATTEMPTS: usize = 500;
/// Far apart and prime to `COUNT`, so that processes with neighbouring ids start at distant ports.
const STRIDE: u32 = 7_919;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port on which no process was listening a moment ago; another one at each call.
///
/// # Errors
/// [`Error::NoFreePort`].
pub fn pick_free_port() -> Result<u16, Error> {
    (0..ATTEMPTS)
        .find_map(|_| next_candidate().filter(|port| is_free(*port)))
        .ok_or(Error::NoFreePort { attempts: ATTEMPTS })
}

fn next_candidate() -> Option<u16> {
    let start = std::process::id() % COUNT * STRIDE % COUNT;
    let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
    u16::try_from(FIRST + (start + step) % COUNT).ok()
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_port_with_a_listener_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn two_picks_are_two_ports() {
        assert_ne!(pick_free_port().unwrap(), pick_free_port().unwrap());
    }
}
