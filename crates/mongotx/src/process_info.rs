//! Identity of a client, as its record shows it to people. No decision depends on it.

use bson::Document;

/// The longest text that is stored, in characters.
const LONGEST: usize = 256;

/// A client's description of itself, for people: [`crate::ClientInfo::process_info`] has it.
///
/// ```
/// # use bson::doc;
/// # #[tokio::main]
/// # async fn main() -> mongotx::Result<()> {
/// use mongotx::{Client, ClientOptions};
///
/// # let server = local_mongod::Server::standalone().await.expect("a mongod");
/// # let uri = &server.uri();
/// let options = ClientOptions { application: Some("shop".to_owned()), ..ClientOptions::default() };
/// let client = Client::connect_with(uri, options).await?;
/// # let orders: mongotx::Collection = client.database("shop").collection("orders");
/// # client.session().with_transaction(async |session| orders.insert_one(&doc! {"_id": 1}).session(session).await).await?;
/// let about = client.clients().await?[0].process_info.clone().expect("it describes itself");
/// assert_eq!(about.application.as_deref(), Some("shop"));
/// assert_eq!(about.process, Some(std::process::id()));
/// println!("{about}"); // shop on host7 (process 4711)
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Name of the application: [`crate::ClientOptions::application`], or `appName` of the
    /// connection string.
    pub application: Option<String>,
    /// Name of the machine. `None`: the system does not show it.
    pub host: Option<String>,
    /// Number of the process there.
    pub process: Option<u32>,
}

impl ProcessInfo {
    /// Description of the current process.
    pub(crate) fn this(application: Option<String>) -> Self {
        let host = ["/proc/sys/kernel/hostname", "/etc/hostname"].iter().find_map(|file| {
            let name = std::fs::read_to_string(file).ok()?;
            Some(name.trim().to_owned()).filter(|name| !name.is_empty())
        });
        let host = host.or_else(|| std::env::var("HOSTNAME").ok());
        Self { application, host, process: Some(std::process::id()) }
    }

    /// The description as the client record stores it.
    pub(crate) fn to_document(&self) -> Document {
        let mut stored = Document::new();
        for (field, text) in [("application", &self.application), ("host", &self.host)] {
            stored.extend(text.as_ref().map(|text| (field.to_owned(), shortened(text).into())));
        }
        stored.extend(self.process.map(|process| ("process".to_owned(), i64::from(process).into())));
        stored
    }

    /// The description in a client record. Parts that are missing or malformed are left out.
    pub(crate) fn of(record: &Document) -> Option<Self> {
        let stored = record.get_document("about").ok()?;
        let text = |field| stored.get_str(field).ok().map(shortened);
        let process = stored.get_i64("process").ok().and_then(|process| u32::try_from(process).ok());
        Some(Self { application: text("application"), host: text("host"), process })
    }
}

/// Prints the description, as in `shop on host7 (process 4711)`.
impl std::fmt::Display for ProcessInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.application.as_deref().unwrap_or("an application"))?;
        if let Some(host) = &self.host {
            write!(f, " on {host}")?;
        }
        match self.process {
            Some(process) => write!(f, " (process {process})"),
            None => Ok(()),
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn what_is_stored_is_read_again_and_what_is_malformed_is_not_there() {
        let about = ProcessInfo { host: Some("h".to_owned()), ..ProcessInfo::this(Some("shop".to_owned())) };
        assert_eq!(ProcessInfo::of(&doc! {"about": about.to_document()}), Some(about.clone()));
        assert!(about.to_string().starts_with("shop on h (process "), "{about}");
        assert_eq!(ProcessInfo::of(&doc! {}), None);
        assert_eq!(ProcessInfo::of(&doc! {"about": {"application": 5, "process": "x"}}), Some(ProcessInfo::default()));
    }
}
