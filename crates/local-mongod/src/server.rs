//! A mongod of a test's own: started, killed, restarted, paused, and gone with its handle.
//!
//! `ready.rs` finds out when it is ready; `process.rs` makes sure that it is not left behind.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use child_processes::{Process, Start, pick_free_port};
use mongodb::Client;
use tempfile::TempDir;

use crate::error::Error;
use crate::options::ServerOptions;
use crate::{locate, ready, signal};

/// The name of every replica set that is started.
pub(crate) const REPLICA_SET: &str = "rs0";
/// Number of times that a start is tried again when the port was taken between the look and the
/// use.
const PORT_ATTEMPTS: usize = 10;
const PORT_PAUSE: Duration = Duration::from_millis(200);
/// Longest time that mongod may take to end by itself after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const STOP_POLL: Duration = Duration::from_millis(20);

/// A mongod that this process started. Dropping it kills the mongod and removes its folder.
///
/// All methods take `&self`, so that one task may kill the server under the feet of another. It
/// holds no connection and is tied to no runtime.
#[derive(Debug)]
pub struct Server {
    // Before the launch, which owns the folder: the process goes first.
    running: Mutex<Option<Process>>,
    launch: Launch,
}

/// All that is the same each time the server is started.
#[derive(Debug)]
struct Launch {
    mongod: PathBuf,
    options: ServerOptions,
    dbpath: PathBuf,
    folder: TempDir,
    port: u16,
}

impl ServerOptions {
    /// Starts the server and waits until it can be used. Dropping the future ends what it started.
    ///
    /// # Errors
    /// Those of [`crate::locate()`], [`Error::Died`] with mongod's own words, [`Error::NotReady`],
    /// [`Error::NoFreePort`].
    pub async fn start(self) -> Result<Server, Error> {
        Server::start(self).await
    }
}

impl Server {
    /// Starts a server that is no member of a replica set, and so refuses native transactions.
    ///
    /// # Errors
    /// As [`ServerOptions::start`].
    pub async fn standalone() -> Result<Self, Error> {
        ServerOptions::standalone().start().await
    }

    /// Starts a replica set of one node and waits until it is primary. It has native transactions.
    ///
    /// # Errors
    /// As [`ServerOptions::start`].
    pub async fn replica_set() -> Result<Self, Error> {
        ServerOptions::replica_set().start().await
    }

    async fn start(options: ServerOptions) -> Result<Self, Error> {
        let mut launch = Launch::prepare(options).await?;
        for _ in 0..PORT_ATTEMPTS {
            match launch.start().await {
                Ok(process) => return Ok(Self { running: Mutex::new(Some(process)), launch }),
                Err(error) if launch.options.port.is_none() && is_port_taken(&error) => {
                    launch.port = pick_free_port()?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoFreePort { attempts: PORT_ATTEMPTS })
    }

    /// Options that it was started with.
    pub(crate) fn options(&self) -> &ServerOptions {
        &self.launch.options
    }

    /// The connection string: a direct connection to a standalone server, a connection by name to a
    /// replica set.
    pub fn uri(&self) -> String {
        let how = if self.launch.options.replica_set { "replicaSet=rs0" } else { "directConnection=true" };
        format!("mongodb://127.0.0.1:{}/?{how}", self.port())
    }

    /// A new client of this server, with the driver's defaults.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub async fn client(&self) -> Result<Client, Error> {
        Ok(Client::with_uri_str(self.uri()).await?)
    }

    /// The port on 127.0.0.1, the same after a restart.
    pub fn port(&self) -> u16 {
        self.launch.port
    }

    /// The folder of the data files.
    pub fn dbpath(&self) -> &Path {
        &self.launch.dbpath
    }

    /// mongod's own process id, or `None` while it is not running: after [`Server::kill`] or
    /// [`Server::stop`], or when it ended by itself.
    pub fn pid(&self) -> Option<u32> {
        let mut running = self.running();
        let ended = matches!(running.as_mut()?.exit_status(), Ok(Some(_)));
        if ended { None } else { running.as_ref().map(Process::pid) }
    }

    /// Ends mongod at once (SIGKILL), as a crash of the machine's process would, and waits until it
    /// is gone. The data files stay. Does nothing when it is not running.
    ///
    /// # Errors
    /// [`Error::Process`].
    pub fn kill(&self) -> Result<(), Error> {
        self.running().take().map_or(Ok(()), |mut process| Ok(process.kill()?))
    }

    /// Ends mongod by SIGTERM, waits, and kills it if it does not end. Does nothing when it is not
    /// running. Dropping the future kills it.
    ///
    /// # Errors
    /// As [`Server::kill`].
    pub async fn stop(&self) -> Result<(), Error> {
        let Some(mut process) = self.running().take() else { return Ok(()) };
        if process.exit_status()?.is_some() {
            return Ok(());
        }
        process.terminate()?;
        let deadline = Instant::now() + STOP_LIMIT;
        while Instant::now() < deadline {
            if process.exit_status()?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(STOP_POLL).await;
        }
        Ok(process.kill()?)
    }

    /// Starts mongod again on the same port and data after it ended, and waits until it can be used
    /// (a replica set: until it is primary again). Dropping the future ends what it started.
    ///
    /// # Errors
    /// [`Error::StillRunning`], and as [`ServerOptions::start`].
    pub async fn restart(&self) -> Result<(), Error> {
        if let Some(pid) = self.pid() {
            return Err(Error::StillRunning { pid });
        }
        for _ in 0..PORT_ATTEMPTS {
            match self.launch.start().await {
                Ok(process) => {
                    *self.running() = Some(process);
                    return Ok(());
                }
                Err(error) if is_port_taken(&error) => tokio::time::sleep(PORT_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoFreePort { attempts: PORT_ATTEMPTS })
    }

    /// Pauses mongod (SIGSTOP) and waits until it stands still: connections stay open and nothing
    /// is answered.
    ///
    /// # Errors
    /// [`Error::NotRunning`], [`Error::Process`].
    pub fn pause(&self) -> Result<(), Error> {
        let mut running = self.running();
        let process = running.as_mut().ok_or(Error::NotRunning)?;
        if process.exit_status()?.is_some() { Err(Error::NotRunning) } else { Ok(process.pause()?) }
    }

    /// Lets a paused mongod go on (SIGCONT).
    ///
    /// # Errors
    /// As [`Server::pause`].
    pub fn resume(&self) -> Result<(), Error> {
        Ok(signal::cont(self.pid().ok_or(Error::NotRunning)?)?)
    }

    /// No code panics while it holds this lock; if one did, the process inside is still the right
    /// one.
    fn running(&self) -> MutexGuard<'_, Option<Process>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launch {
    async fn prepare(options: ServerOptions) -> Result<Self, Error> {
        let mongod = match &options.mongod {
            Some(binary) => binary.clone(),
            None => tokio::task::spawn_blocking(locate)
                .await
                .map_err(|error| Error::Io { action: "look for mongod".to_owned(), source: error.into() })??,
        };
        let place = if options.in_memory { crate::memory::folder() } else { None }.unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new().prefix("mongotx-").tempdir_in(place);
        let folder = folder.map_err(Error::io("create a folder"))?;
        let dbpath = options.dbpath.clone().unwrap_or_else(|| folder.path().join("data"));
        std::fs::create_dir_all(&dbpath).map_err(Error::io(format!("create {}", dbpath.display())))?;
        let port = match options.port {
            Some(port) => port,
            None => pick_free_port()?,
        };
        Ok(Self { mongod, options, dbpath, folder, port })
    }

    /// Starts mongod and waits until it can be used.
    async fn start(&self) -> Result<Process, Error> {
        let mut process = Process::start(&Start {
            program: &self.mongod,
            args: &self.args(),
            console: &self.console(),
            folder: self.folder.path(),
        })?;
        let started = ready::Started {
            port: self.port,
            replica_set: self.replica_set(),
            console: self.console(),
            log: self.log(),
        };
        ready::wait_until_ready(&mut process, &started).await?;
        Ok(process)
    }

    fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: OsString| args.extend([name.into(), value]);
        option("--bind_ip", "127.0.0.1".into());
        option("--port", self.port.to_string().into());
        option("--dbpath", self.dbpath.clone().into());
        option("--logpath", self.log().into());
        option("--wiredTigerCacheSizeGB", self.options.cache_gb.to_string().into());
        // A recorder of server metrics, of no use here and the busiest thread of an idle server.
        option("--setParameter", "diagnosticDataCollectionEnabled=false".into());
        if self.options.replica_set {
            option("--replSet", REPLICA_SET.into());
            option("--oplogSize", "128".into());
        }
        args.extend(["--logappend", "--quiet", "--nounixsocket"].map(OsString::from));
        args.extend(self.options.args.iter().cloned());
        args
    }

    /// The name of the replica set, if the server is to be one by itself.
    fn replica_set(&self) -> Option<&'static str> {
        (self.options.replica_set && !self.options.member).then_some(REPLICA_SET)
    }

    /// Path of mongod's log, written once it has read its options.
    fn log(&self) -> PathBuf {
        self.folder.path().join("mongod.log")
    }

    /// Path of mongod's output before that.
    fn console(&self) -> PathBuf {
        self.folder.path().join("console.log")
    }
}

/// Returns true if mongod ended because another process listens on its port: its own exit code for
/// network errors.
fn is_port_taken(error: &Error) -> bool {
    const NET_ERROR: i32 = 48;
    matches!(error, Error::Died { status, .. } if status.code() == Some(NET_ERROR) && status.signal().is_none())
}
