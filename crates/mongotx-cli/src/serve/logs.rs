//! What a gateway logs, and how: a line per event on standard error, for people or for programs.
//!
//! Events are in `mongotx_gateway`: connections and their ends, logins, transactions that were rolled back, slow commands. None has
//! a password, a key or a document in it.

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;

use crate::failure::Failure;

/// How much is logged, and in which form.
#[derive(Args, Clone)]
pub(crate) struct LogOptions {
    /// The form of the log on standard error: lines for people, or a JSON document per line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// The least important events that are logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Level::Info)]
    log_level: Level,
    /// Logs commands that take so many milliseconds or more; 0: all of them
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub(crate) slow_ms: u32,
}

#[derive(Clone, Copy, ValueEnum)]
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

/// Logs from now on.
pub(crate) fn start(options: &LogOptions) -> Result<(), Failure> {
    let level = match options.log_level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let logger = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    let started = match options.log_format {
        Format::Text => logger.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        Format::Json => logger.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::new(format!("cannot log: {error}")))
}
