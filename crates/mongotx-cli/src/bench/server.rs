//! A server of a benchmark: started here, always with the same settings, or named by the caller.

use bson::{Document, doc};
use mongodb::{Client, Database};
use testkit::{Options, Server};

use super::BenchError;
use crate::connect::with_selection_limit;

const CACHE_GB: f64 = 1.0;

/// One server and a client of it for what is not measured.
pub(crate) struct Bench {
    /// Its connection string.
    pub(crate) uri: String,
    /// For loading, checking and asking.
    pub(crate) admin: Client,
    /// Ends with this.
    _started: Option<Server>,
}

impl Bench {
    /// The server that `option` names, or a new one.
    ///
    /// # Errors
    /// A server that was named and cannot be used, by the name of the option.
    pub(crate) async fn open(option: &str, uri: Option<&str>, options: Options) -> Result<Self, BenchError> {
        let Some(uri) = uri.map(with_selection_limit) else {
            let server = options.cache_size_gb(CACHE_GB).start().await?;
            let (uri, admin) = (server.uri(), server.client().await?);
            return Ok(Self { uri, admin, _started: Some(server) });
        };
        match answering(&uri).await {
            Ok(admin) => Ok(Self { uri, admin, _started: None }),
            Err(error) => Err(BenchError::Failed(format!("{option}: cannot use this server: {error}"))),
        }
    }

    fn db(&self) -> Database {
        self.admin.database("admin")
    }

    /// The processor time that the server has used so far, in microseconds, where it tells.
    pub(crate) async fn cpu_us(&self) -> Result<Option<i64>, BenchError> {
        let status = self.db().run_command(doc! {"serverStatus": 1, "wiredTiger": 0, "metrics": 0}).await?;
        let Ok(info) = status.get_document("extra_info") else { return Ok(None) };
        let number = |field| info.get(field).and_then(number_of);
        Ok(number("user_time_us").zip(number("system_time_us")).map(|(user, system)| user + system))
    }

    /// What it is and how it was started, in words.
    pub(crate) async fn describe(&self) -> Result<String, BenchError> {
        let build = self.db().run_command(doc! {"buildInfo": 1}).await?;
        let hello = self.db().run_command(doc! {"hello": 1}).await?;
        let status = self.db().run_command(doc! {"serverStatus": 1}).await?;
        let nodes = hello.get_array("hosts").map_or(0, Vec::len);
        let kind = if nodes > 0 { format!("{nodes} node(s)") } else { "no replica set".to_owned() };
        let cache = status.get_document("wiredTiger").and_then(|tiger| tiger.get_document("cache")).ok();
        let cache = cache.and_then(|cache| cache.get("maximum bytes configured")).and_then(number_of);
        let cache = cache.map_or(String::new(), |bytes| format!(", cache {} MB", bytes >> 20));
        let version = build.get_str("version").unwrap_or("of unknown version");
        Ok(format!("mongod {version}, {kind}, journal on{cache}, {}", journal(&self.settings().await)))
    }

    /// How the server was started, as far as it tells.
    async fn settings(&self) -> Document {
        self.db().run_command(doc! {"getCmdLineOpts": 1}).await.unwrap_or_default()
    }
}

/// A client, once the server has answered it.
async fn answering(uri: &str) -> Result<Client, mongodb::error::Error> {
    let client = Client::with_uri_str(uri).await?;
    client.database("admin").run_command(doc! {"ping": 1}).await?;
    Ok(client)
}

fn journal(settings: &Document) -> String {
    let storage = settings.get_document("parsed").and_then(|parsed| parsed.get_document("storage"));
    let set = storage.and_then(|storage| storage.get_document("journal")).ok();
    match set.and_then(|journal| journal.get("commitIntervalMs")) {
        Some(interval) => format!("journal commit interval {interval} ms"),
        None => "journal commit interval 100 ms (default)".to_owned(),
    }
}

fn number_of(value: &bson::Bson) -> Option<i64> {
    value.as_i64().or(value.as_i32().map(i64::from)).or(value.as_f64().map(|n| n as i64))
}
