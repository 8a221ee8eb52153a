//! Ports that are picked before the servers that will listen on them run, and kept while they do
//! not.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A free port of the loopback interface for a server that is started later, and perhaps again and
/// again.
///
/// A bound port that nothing listens on, with `SO_REUSEADDR`. As long as this is not dropped, Linux
/// gives it to no program that binds to any free port and to no outgoing connection, not even to
/// one that calls this port; but a program that names it and sets the option too, as
/// [`crate::server::Server`] does, may listen.
#[derive(Debug)]
pub struct HeldPort {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl HeldPort {
    /// Picks a free port and holds it.
    ///
    /// # Errors
    /// The system has no more sockets or ports.
    pub fn pick() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let bound = SocketAddrV4::try_from(getsockname(&socket)?)?;
        Ok(Self { address: bound.into(), _socket: socket })
    }

    /// Address on which a server is to listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn held_port_is_refused_to_callers_and_taken_by_one_server_after_the_other() {
        let port = HeldPort::pick().unwrap();
        for _ in 0..3 {
            assert!(TcpStream::connect(port.address()).is_err());
            let server = TcpListener::bind(port.address()).unwrap();
            TcpStream::connect(port.address()).unwrap();
            drop(server.accept().unwrap());
        }
    }

    /// A program without the option meets the check that the system itself makes when it picks a
    /// port.
    #[test]
    fn held_port_is_in_use_until_it_is_dropped() {
        let port = HeldPort::pick().unwrap();
        let SocketAddr::V4(address) = port.address() else { panic!("it is of the loopback interface") };
        let other = || socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        assert_eq!(bind(other(), &address), Err(rustix::io::Errno::ADDRINUSE));
        drop(port);
        bind(other(), &address).unwrap();
    }
}
