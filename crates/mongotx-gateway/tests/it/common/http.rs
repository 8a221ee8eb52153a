//! Requests over HTTP to a gateway.

use std::net::SocketAddr;

use mongotx_gateway::{Gateway, GatewayOptions, Limits};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{options, soon};

/// A gateway in front of this server, and the address of its metrics.
pub async fn with_metrics(uri: &str, limits: Limits) -> (Gateway, SocketAddr) {
    let metrics = Some("127.0.0.1:0".parse().unwrap());
    let gateway = Gateway::start(GatewayOptions { metrics, ..options(uri, limits) }).await.unwrap();
    let address = gateway.metrics_address().unwrap();
    (gateway, address)
}

/// The status and the body of an answer.
pub async fn http(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let mut stream = soon(TcpStream::connect(address)).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n");
    soon(stream.write_all(request.as_bytes())).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The value of a metric, by its name with labels.
pub async fn metric(address: SocketAddr, name: &str) -> Option<f64> {
    let (status, text) = http(address, "GET", "/metrics").await;
    assert!(status == 200 && text.ends_with("# EOF\n"), "{text}");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| value.parse().unwrap())
}
