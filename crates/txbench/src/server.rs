//! A server of a benchmark: started here, always with the same settings, or named by the caller;
//! and the resources that it uses.

use bson::{Bson, Document, doc};
use futures_util::future::try_join_all;
use local_mongod::{ReplicaSet, Server, ServerOptions};
use mongodb::{Client, Database, options::ClientOptions};

use crate::{error::BenchError, targets::Deployment};

const CACHE_GB: f64 = 1.0;
/// Time for which a named server is looked for.
const SELECTION: std::time::Duration = std::time::Duration::from_secs(5);

/// One deployment, and clients of it for what is not measured.
pub struct Bench {
    /// Connection string of the server.
    pub uri: String,
    /// Client for administration: reading settings, and dropping databases.
    pub admin: Client,
    /// One client for each node, for reading its use of resources.
    nodes: Vec<Client>,
    /// The server process, which ends with this value.
    started: Option<Started>,
}

/// Server processes that were started here.
enum Started {
    One(Server),
    Several(ReplicaSet),
}

/// Resources that the nodes have used since they were started. `None` where they do not report it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time of all nodes, in microseconds.
    pub cpu_us: Option<i64>,
    /// Bytes written to the journal and the data files.
    pub written_bytes: Option<i64>,
}

impl Bench {
    /// Starts a server, or as many as the replica set has nodes (at most seven).
    ///
    /// # Errors
    /// [`BenchError::Server`].
    pub async fn start(deployment: Deployment) -> Result<Self, BenchError> {
        let (started, uri) = match deployment {
            Deployment::Standalone | Deployment::ReplicaSet(0 | 1) => {
                let alone = deployment == Deployment::Standalone;
                let options = if alone { ServerOptions::standalone() } else { ServerOptions::replica_set() };
                let server = options.cache_size_gb(CACHE_GB).start().await?;
                let uri = server.uri();
                (Started::One(server), uri)
            }
            Deployment::ReplicaSet(nodes) => {
                let set = ReplicaSet::start_with(nodes, &ServerOptions::replica_set().cache_size_gb(CACHE_GB)).await?;
                let uri = set.uri();
                (Started::Several(set), uri)
            }
        };
        Ok(Self { started: Some(started), ..Self::connect(&uri).await? })
    }

    /// The server that `option` names.
    ///
    /// # Errors
    /// A server that cannot be used, by the name of the option.
    pub async fn named(option: &str, uri: &str) -> Result<Self, BenchError> {
        let refused = |error| BenchError::Refused(format!("{option}: cannot use this server: {error}"));
        Self::connect(uri).await.map_err(refused)
    }

    /// The server that `option` names, if one is named; else a new one.
    ///
    /// # Errors
    /// As [`Bench::named`] and [`Bench::start`].
    pub async fn open(option: &str, uri: Option<&str>, deployment: Deployment) -> Result<Self, BenchError> {
        match uri {
            Some(uri) => Self::named(option, uri).await,
            None => Self::start(deployment).await,
        }
    }

    async fn connect(uri: &str) -> Result<Self, BenchError> {
        let mut options = ClientOptions::parse(uri).await?;
        options.server_selection_timeout.get_or_insert(SELECTION);
        let admin = Client::with_options(options.clone())?;
        let hello = admin.database("admin").run_command(doc! {"hello": 1}).await?;
        let hosts = hello.get_array("hosts").map_or_else(|_| Vec::new(), |hosts| texts(hosts));
        let mut nodes = Vec::new();
        for host in hosts {
            let mut direct = options.clone();
            direct.hosts = vec![host.parse()?];
            direct.repl_set_name = None;
            direct.direct_connection = Some(true);
            nodes.push(Client::with_options(direct)?);
        }
        if nodes.is_empty() {
            nodes.push(admin.clone());
        }
        Ok(Self { uri: uri.to_owned(), admin, nodes, started: None })
    }

    /// The servers, where they were started here.
    pub fn servers(&self) -> &[Server] {
        match &self.started {
            None => &[],
            Some(Started::One(server)) => std::slice::from_ref(server),
            Some(Started::Several(set)) => set.members(),
        }
    }

    /// Number of nodes of the server.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    fn db(&self) -> Database {
        self.admin.database("admin")
    }

    /// Resources that all nodes together have used so far.
    ///
    /// # Errors
    /// [`BenchError::Driver`].
    pub async fn usage(&self) -> Result<Usage, BenchError> {
        let each = try_join_all(self.nodes.iter().map(usage)).await?;
        let sum = |of: fn(&Usage) -> Option<i64>| each.iter().map(of).sum::<Option<i64>>();
        Ok(Usage { cpu_us: sum(|usage| usage.cpu_us), written_bytes: sum(|usage| usage.written_bytes) })
    }

    /// Description of the server's version and options, in words.
    ///
    /// # Errors
    /// [`BenchError::Driver`].
    pub async fn describe(&self) -> Result<String, BenchError> {
        let build = self.db().run_command(doc! {"buildInfo": 1}).await?;
        let hello = self.db().run_command(doc! {"hello": 1}).await?;
        let status = self.db().run_command(doc! {"serverStatus": 1}).await?;
        let nodes = hello.get_array("hosts").map_or(0, Vec::len);
        let kind = if nodes > 0 { format!("replica set of {nodes} node(s)") } else { "standalone".to_owned() };
        let cache = status.get_document("wiredTiger").and_then(|tiger| tiger.get_document("cache")).ok();
        let cache = cache.and_then(|cache| number(cache, "maximum bytes configured"));
        let cache = cache.map_or(String::new(), |bytes| format!(", cache {} MB", bytes >> 20));
        let version = build.get_str("version").unwrap_or("of unknown version");
        Ok(format!("mongod {version}, {kind}, journal on{cache}, {}", journal(&self.settings().await)))
    }

    /// Options that the server was started with, as far as it reports them.
    async fn settings(&self) -> Document {
        self.db().run_command(doc! {"getCmdLineOpts": 1}).await.unwrap_or_default()
    }
}

fn texts(values: &[Bson]) -> Vec<String> {
    values.iter().filter_map(Bson::as_str).map(str::to_owned).collect()
}

async fn usage(node: &Client) -> Result<Usage, BenchError> {
    let status = node.database("admin").run_command(doc! {"serverStatus": 1, "metrics": 0}).await?;
    let cpu = status.get_document("extra_info").ok();
    let cpu = cpu.and_then(|info| Some(number(info, "user_time_us")? + number(info, "system_time_us")?));
    let written = status.get_document("wiredTiger").ok().and_then(|tiger| {
        let blocks = number(tiger.get_document("block-manager").ok()?, "bytes written")?;
        let journal = number(tiger.get_document("log").ok()?, "log bytes written")?;
        Some(blocks + journal)
    });
    Ok(Usage { cpu_us: cpu, written_bytes: written })
}

fn journal(settings: &Document) -> String {
    let storage = settings.get_document("parsed").and_then(|parsed| parsed.get_document("storage"));
    let set = storage.and_then(|storage| storage.get_document("journal")).ok();
    match set.and_then(|journal| journal.get("commitIntervalMs")) {
        Some(interval) => format!("journal commit interval {interval} ms"),
        None => "journal commit interval 100 ms (default)".to_owned(),
    }
}

fn number(document: &Document, field: &str) -> Option<i64> {
    let value = document.get(field)?;
    value.as_i64().or(value.as_i32().map(i64::from)).or(value.as_f64().map(|n| n as i64))
}
