//! The memory of a gateway before and after clients have opened connections that do nothing then.
//! Costs of commands are in `operation`.

use std::time::Duration;

use bson::{Document, doc};
use mongodb::{Client, options::ClientOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::process::GatewayProcess;
use crate::bench::BenchError;

/// Time limit for connecting.
const LIMIT: Duration = Duration::from_secs(60);

/// Memory of a gateway at one moment.
pub(crate) struct Memory {
    pub(crate) when: String,
    pub(crate) connections: u32,
    pub(crate) bytes: u64,
}

impl Memory {
    /// Measures the memory now.
    pub(crate) fn of(gateway: &GatewayProcess, when: &str, connections: u32) -> Result<Self, BenchError> {
        Ok(Self { when: when.to_owned(), connections, bytes: gateway.memory_bytes()? })
    }
}

/// A new gateway, before and after so many connections were opened that have each read one
/// document.
pub(crate) async fn measure(server: &str, connections: u32) -> Result<Vec<Memory>, BenchError> {
    let db = format!("mongotx_bench_idle_{}", std::process::id());
    let gateway = GatewayProcess::start(server, &db).await?;
    let mut memory = vec![Memory::of(&gateway, "as started", 0)?];
    let host = ClientOptions::parse(&gateway.uri).await?.hosts.first().map(ToString::to_string).unwrap_or_default();
    let idle = async {
        let mut idle = Vec::new();
        for _ in 0..connections {
            idle.push(ask_once(&host, &db).await?);
        }
        Ok::<_, BenchError>(idle)
    };
    let idle = tokio::time::timeout(LIMIT, idle).await;
    let idle = idle.map_err(|_| BenchError::Failed(format!("--idle-connections: not opened within {LIMIT:?}")))??;
    memory.push(Memory::of(&gateway, "all connections open and idle", connections)?);
    drop(idle);
    gateway.end().await?;
    mongotx::drop_record_database(&Client::with_uri_str(server).await?, &db).await?;
    Ok(memory)
}

/// A connection that has said hello, as a driver's does, and has read once.
async fn ask_once(host: &str, db: &str) -> Result<TcpStream, BenchError> {
    let mut stream = TcpStream::connect(host).await.map_err(|error| failed(&error))?;
    ask(&mut stream, &doc! {"hello": 1, "$db": "admin"}).await?;
    ask(&mut stream, &doc! {"find": "nothing", "filter": {"_id": 1}, "$db": db}).await?;
    Ok(stream)
}

/// Sends a command as `OP_MSG` and reads the answer away.
async fn ask(stream: &mut TcpStream, command: &Document) -> Result<(), BenchError> {
    const OP_MSG: i32 = 2013;
    const HEADER_BYTES: i32 = 16;
    let body = command.to_vec().map_err(|error| failed(&error))?;
    let length = i32::try_from(body.len()).map_err(|error| failed(&error))? + HEADER_BYTES + 5;
    let mut message: Vec<u8> = [length, 1, 0, OP_MSG, 0].into_iter().flat_map(i32::to_le_bytes).collect();
    message.push(0);
    message.extend(body);
    let answer = async {
        stream.write_all(&message).await?;
        let length = stream.read_i32_le().await?;
        let mut rest = vec![0; usize::try_from(length).unwrap_or(0).saturating_sub(4).min(1 << 20)];
        stream.read_exact(&mut rest).await
    };
    answer.await.map(drop).map_err(|error| failed(&error))
}

fn failed(reason: &dyn std::fmt::Display) -> BenchError {
    BenchError::Failed(format!("an idle connection: {reason}"))
}
