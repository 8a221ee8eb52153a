//! The log of a gateway: a line per event on standard error, for people or for programs.
//!
//! Events are in `mongotx_gateway`: connections and their ends, logins, transactions that were
//! rolled back, slow commands. None has a password, a key or a document in it.

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

use crate::failure::Failure;

/// Level and form of the log.
#[derive(Args, Clone)]
pub(crate) struct LogOptions {
    /// The form of the log on standard error: lines for people, or a JSON document per line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// The least important events that are logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Level::Info)]
    log_level: Level,
    /// Time from which on a command is logged as slow, in milliseconds; 0: every command
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub(crate) slow_ms: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogOptions {
    fn level(&self) -> LevelFilter {
        match self.log_level {
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        }
    }

    /// Of these options, the one that a gateway which runs cannot change.
    pub(crate) fn fixed(&self) -> (&'static str, String) {
        ("log-format", format!("{:?}", self.log_format))
    }
}

/// The log that has been started.
pub(crate) struct Log(reload::Handle<LevelFilter, Registry>);

impl Log {
    /// Logs at the level of these options from now on.
    pub(crate) fn tune(&self, options: &LogOptions) -> Result<(), Failure> {
        self.0.reload(options.level()).map_err(|error| Failure::new(format!("log-level: {error}")))
    }
}

/// Begins to write the log.
pub(crate) fn start(options: &LogOptions) -> Result<Log, Failure> {
    let (level, handle) = reload::Layer::new(options.level());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let started = match options.log_format {
        Format::Text => {
            let lines = lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
            tracing_subscriber::registry().with(level).with(lines).try_init()
        }
        Format::Json => tracing_subscriber::registry().with(level).with(lines.json().flatten_event(true)).try_init(),
    };
    started.map(|()| Log(handle)).map_err(|error| Failure::new(format!("cannot log: {error}")))
}
