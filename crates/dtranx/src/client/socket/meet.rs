//! The handshake of a connection: preface, hello, welcome.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::TICK;
use crate::wire::{
    Caller, Hello, Nonce, PREFACE_BYTES, Proof, Secret, Side, Welcome, WireError, check_preface, decode, encode,
    next_frame, preface,
};

const CONNECT: Duration = Duration::from_secs(2);
const HANDSHAKE: Duration = Duration::from_secs(2);
const WRITE: Duration = Duration::from_secs(5);

/// A connection that was welcomed: the stream, and the bytes behind the welcome.
pub(super) struct Met {
    pub(super) stream: TcpStream,
    pub(super) welcome: Welcome,
    pub(super) rest: Vec<u8>,
}

/// Answer of a server to a client that opens a connection, which is closed again: the description
/// of the cluster, from a server that takes clients ([`Welcome::Client`]) or from a member of a
/// group that does not lead ([`Welcome::NotLeading`]), or a refusal. The server has `patience` to
/// answer, and 2 seconds in any case.
///
/// # Errors
/// A text for people: the server cannot be reached, does not answer in time, does not prove that it
/// knows the secret, or its answer is malformed.
pub fn greet(address: SocketAddr, secret: Option<&Secret>, patience: Duration) -> Result<Welcome, String> {
    let (from, nonce) = (Caller::Client(None), rand::random());
    let hello = Hello { cluster: String::new(), map: None, to: None, from, nonce };
    meet(address, &hello, secret, patience).map(|met| met.welcome)
}

/// Connects to a server and says hello. `patience`: time within which the server must answer; a
/// short time in any case.
pub(super) fn meet(
    address: SocketAddr,
    hello: &Hello,
    secret: Option<&Secret>,
    patience: Duration,
) -> Result<Met, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = open(address).map_err(text)?;
    let mut out = preface().to_vec();
    encode(hello, &mut out).map_err(|error| error.to_string())?;
    stream.write_all(&out).map_err(text)?;
    let until = Instant::now() + patience.max(HANDSHAKE);
    let mut incoming = Vec::new();
    let mut chunk = [0; 4096];
    let mut is_proven = false;
    loop {
        if let Some((bytes, rest)) = incoming.split_first_chunk::<PREFACE_BYTES>() {
            check_preface(bytes).map_err(|error| error.to_string())?;
            if let Some((payload, taken)) = next_frame(rest).map_err(|error| error.to_string())? {
                match decode(payload).map_err(|error| error.to_string())? {
                    Welcome::Challenge { nonce, proof } if !is_proven => {
                        stream.write_all(&proven(secret, hello, &nonce, &proof)?).map_err(text)?;
                        is_proven = true;
                        incoming.drain(PREFACE_BYTES..PREFACE_BYTES + taken);
                        continue;
                    }
                    Welcome::Refused { why, is_temporary } => {
                        return Ok(Met { stream, welcome: Welcome::Refused { why, is_temporary }, rest: Vec::new() });
                    }
                    _ if secret.is_some() && !is_proven => {
                        return Err("the server has not shown that it knows the secret".to_owned());
                    }
                    welcome => return Ok(Met { stream, welcome, rest: rest[taken..].to_vec() }),
                }
            }
        }
        let now = Instant::now();
        match stream.read(&mut chunk) {
            Ok(0) => return Err("the server closed the connection".to_owned()),
            // A process that stood still wakes late: bytes that are there by then still count.
            Ok(bytes) if now < until + HANDSHAKE => incoming.extend_from_slice(&chunk[..bytes]),
            Ok(_) => return Err("the server takes too long to say who it is".to_owned()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) && now < until => {}
            Err(error) if is_timeout(&error) => {
                return Err(format!("it did not answer within {} s", patience.max(HANDSHAKE).as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// A connection whose reads and writes end.
fn open(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE))?;
    stream.set_read_timeout(Some(TICK))?;
    Ok(stream)
}

/// The answer to a challenge.
fn proven(secret: Option<&Secret>, hello: &Hello, nonce: &Nonce, proof: &Proof) -> Result<Vec<u8>, String> {
    let secret = secret.ok_or("the server asks for a secret, and none was given")?;
    let text = |error: WireError| error.to_string();
    if !secret.is_proven(Side::Called, hello, nonce, proof).map_err(text)? {
        return Err("the server does not know the secret".to_owned());
    }
    let mut out = Vec::new();
    encode(&secret.prove(Side::Caller, hello, nonce).map_err(text)?, &mut out).map_err(text)?;
    Ok(out)
}

pub(super) fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
