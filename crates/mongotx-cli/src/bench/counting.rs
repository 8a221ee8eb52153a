//! The official driver with its commands counted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use mongodb::{
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
};

use super::BenchError;

/// A client of the official driver that counts the commands it sends.
pub(crate) struct CountingDriver {
    pub(crate) client: mongodb::Client,
    commands: Arc<AtomicU64>,
}

impl CountingDriver {
    pub(crate) async fn connect(uri: &str) -> Result<Self, BenchError> {
        let mut options = ClientOptions::parse(uri).await?;
        let commands = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&commands);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(_) = event {
                count.fetch_add(1, Relaxed);
            }
        }));
        Ok(Self { client: mongodb::Client::with_options(options)?, commands })
    }

    /// Commands sent so far, by the driver's command monitoring.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Relaxed)
    }
}
