//! Address of a server, and the options of connections to it: TLS, login, time limits, the
//! versioned API. They are taken from the driver's options where connections of this crate can do
//! the same; [`Settings::from_driver_options`] answers `None` where they cannot, and the driver's
//! own have to be used.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bson::{RawDocumentBuf, cstr};
use mongodb::options::{AuthMechanism, ClientOptions, Credential, ServerAddress, ServerApi, Tls as DriverTls};
use tokio_rustls::TlsConnector;

use crate::{scram::Mechanism, tls};

/// Port of a MongoDB server whose address names none.
const DEFAULT_PORT: u16 = 27017;
/// The longest that connecting may take unless options say otherwise: the official driver's
/// default.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Address of a server, by TCP or by a Unix domain socket.
///
/// ```
/// use mongowire::Address;
///
/// assert_eq!(Address::parse("[::1]:27018"), Some(Address::Tcp("::1".to_owned(), 27018)));
/// assert_eq!(Address::parse("db.example").unwrap().to_string(), "db.example:27017");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host, by its name or its IP address (without brackets), and a port.
    Tcp(String, u16),
    /// Path of a socket in the file system, for a server on the same machine.
    Unix(PathBuf),
}

impl Address {
    /// Reads `host`, `host:port` or `[host]:port`, the forms in which servers name addresses; the
    /// port is 27017 if there is none.
    pub fn parse(text: &str) -> Option<Self> {
        ServerAddress::parse(text).ok().as_ref().and_then(Self::of)
    }

    fn of(address: &ServerAddress) -> Option<Self> {
        match address {
            ServerAddress::Tcp { host, port } => Some(Self::Tcp(host.clone(), port.unwrap_or(DEFAULT_PORT))),
            ServerAddress::Unix { path } => Some(Self::Unix(path.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Address, encryption, login and time limits of connections to one server.
#[derive(Clone)]
pub struct Settings {
    /// Address of the server to connect to; [`Settings::at`] has the same settings for another one.
    pub address: Address,
    /// Longest time that connecting may take, greeting and login included. Default: 10 seconds.
    pub connect_limit: Duration,
    /// Name of the application, as the server shows it in its log. `None`: without a name.
    pub app_name: Option<String>,
    /// User to log in as, with the password. `None`: connections do not log in.
    pub login: Option<Arc<Login>>,
    pub(crate) tls: Option<TlsConnector>,
    /// Fields that go with every command.
    pub(crate) appended: RawDocumentBuf,
}

impl Settings {
    /// Settings of a server at this address, without TLS or a login.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            connect_limit: CONNECT_LIMIT,
            app_name: None,
            login: None,
            tls: None,
            appended: RawDocumentBuf::new(),
        }
    }

    /// Settings that do what the official driver's options ask for. `None` if lean connections
    /// cannot do it: several servers, load balancers, another way to log in than by a password,
    /// certificates that cannot be used. Then the driver has to be used, which reports what is
    /// wrong.
    ///
    /// Compressors are not negotiated. Whether the server is alone and may be written to is in its
    /// [`Greeting`].
    ///
    /// [`Greeting`]: crate::Greeting
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> mongodb::error::Result<()> {
    /// use mongodb::options::ClientOptions;
    /// use mongowire::Settings;
    ///
    /// let one = ClientOptions::parse("mongodb://ann:secret@127.0.0.1/?appName=shop").await?;
    /// let settings = Settings::from_driver_options(&one).expect("one server, and a password");
    /// assert_eq!(settings.login.as_ref().unwrap().source, "admin");
    ///
    /// let several = ClientOptions::parse("mongodb://one.example,two.example/?replicaSet=rs0").await?;
    /// assert!(Settings::from_driver_options(&several).is_none()); // the driver has to find the primary
    /// # Ok(()) }
    /// ```
    pub fn from_driver_options(options: &ClientOptions) -> Option<Self> {
        let [host] = &options.hosts[..] else { return None };
        if options.load_balanced == Some(true) {
            return None;
        }
        let address = Address::of(host)?;
        let tls = match (&options.tls, &address) {
            (Some(DriverTls::Enabled(tls)), Address::Tcp(..)) => Some(tls::connector(tls).ok()?),
            _ => None,
        };
        Some(Self {
            connect_limit: options.connect_timeout.filter(|limit| !limit.is_zero()).unwrap_or(CONNECT_LIMIT),
            app_name: options.app_name.clone(),
            login: options.credential.as_ref().map(Login::from_driver_credential).transpose().ok()?.map(Arc::new),
            tls,
            appended: options.server_api.as_ref().map(api_fields).unwrap_or_default(),
            ..Self::new(address)
        })
    }

    /// The same settings for another address of the same deployment.
    #[must_use]
    pub fn at(&self, address: Address) -> Self {
        Self { address, ..self.clone() }
    }
}

/// Fields that the versioned API (`apiVersion`, …) adds to every command.
fn api_fields(api: &ServerApi) -> RawDocumentBuf {
    let mut fields = RawDocumentBuf::new();
    fields.append(cstr!("apiVersion"), api.version.to_string());
    if let Some(strict) = api.strict {
        fields.append(cstr!("apiStrict"), strict);
    }
    if let Some(deprecation_errors) = api.deprecation_errors {
        fields.append(cstr!("apiDeprecationErrors"), deprecation_errors);
    }
    fields
}

/// A user with a password. The password is hashed once for all connections to a server.
pub struct Login {
    /// Name of the user, as it was created on the server, without its database.
    pub user: String,
    /// Database in which the user was created (`authSource`), `admin` for most users.
    pub source: String,
    /// Mechanism of the login. `None`: the best that the server offers this user.
    pub mechanism: Option<Mechanism>,
    password: String,
    /// The password as it was hashed last: every connection to a server hashes it the same way,
    /// which takes milliseconds.
    salted: Mutex<Option<Salted>>,
}

/// The password, as it was hashed with a salt that a server has sent.
#[derive(Clone)]
struct Salted {
    mechanism: Mechanism,
    salt: Vec<u8>,
    iterations: u32,
    password: Vec<u8>,
}

impl Login {
    /// A user that is kept in the database `source`. `mechanism`: `None` takes the best that the
    /// server offers.
    pub fn new(user: &str, password: &str, source: &str, mechanism: Option<Mechanism>) -> Self {
        let [user, password, source] = [user, password, source].map(str::to_owned);
        Self { user, source, mechanism, password, salted: Mutex::default() }
    }

    /// # Errors
    /// `()` for a mechanism other than SCRAM.
    fn from_driver_credential(credential: &Credential) -> Result<Self, ()> {
        let mechanism = match credential.mechanism {
            None => None,
            Some(AuthMechanism::ScramSha1) => Some(Mechanism::ScramSha1),
            Some(AuthMechanism::ScramSha256) => Some(Mechanism::ScramSha256),
            Some(_) => return Err(()),
        };
        let (Some(user), Some(password), None) =
            (&credential.username, &credential.password, &credential.mechanism_properties)
        else {
            return Err(());
        };
        Ok(Self::new(user, password, credential.source.as_deref().unwrap_or("admin"), mechanism))
    }

    /// The password, hashed with the server's salt and number of iterations.
    ///
    /// # Errors
    /// A text, for a password that the mechanism does not allow.
    pub(crate) fn salted(&self, mechanism: Mechanism, salt: &[u8], iterations: u32) -> Result<Vec<u8>, String> {
        let mut known = self.salted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref()
            && (known.mechanism, &known.salt[..], known.iterations) == (mechanism, salt, iterations)
        {
            return Ok(known.password.clone());
        }
        let password = mechanism.salted(&mechanism.prepare(&self.user, &self.password)?, salt, iterations);
        *known = Some(Salted { mechanism, salt: salt.to_owned(), iterations, password: password.clone() });
        Ok(password)
    }
}

/// Shows a login without its password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("source", &self.source).finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("address", &self.address)
            .field("login", &self.login)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::rawdoc;
    use mongodb::options::ServerApiVersion;

    use super::*;

    async fn settings(uri: &str) -> Option<Settings> {
        Settings::from_driver_options(&ClientOptions::parse(uri).await.unwrap())
    }

    #[tokio::test]
    async fn what_can_be_done_here_is_taken_over() {
        let plain = settings("mongodb://h/?appName=a&connectTimeoutMS=1500").await.unwrap();
        assert_eq!((plain.address, plain.app_name.as_deref()), (Address::Tcp("h".to_owned(), 27017), Some("a")));
        assert_eq!(plain.connect_limit, Duration::from_millis(1500));
        let login = settings("mongodb://u:p%40@h:1/d?authMechanism=SCRAM-SHA-1").await.unwrap().login.unwrap();
        assert_eq!((&login.user[..], &login.source[..], &login.password[..]), ("u", "d", "p@"));
        assert_eq!(login.mechanism, Some(Mechanism::ScramSha1));
        let login = settings("mongodb://u:p@h/d?authSource=s").await.unwrap().login.unwrap();
        assert_eq!((&login.source[..], login.mechanism), ("s", None));
        assert!(!format!("{login:?}").contains('p'), "passwords are not shown");
        assert!(settings("mongodb://h/?tls=true").await.unwrap().tls.is_some());
        let unix = settings("mongodb://%2Ftmp%2Fs.sock").await.unwrap();
        assert_eq!(unix.address, Address::Unix("/tmp/s.sock".into()));
    }

    #[tokio::test]
    async fn what_cannot_be_done_here_is_left_to_the_driver() {
        for uri in [
            "mongodb://a,b/",
            "mongodb://h/?loadBalanced=true",
            "mongodb://h/?authMechanism=MONGODB-X509&tls=true",
            "mongodb://u:p@h/?authMechanism=PLAIN&tls=true",
            "mongodb://h/?tls=true&tlsCAFile=/not/there.pem",
            "mongodb://h/?tls=true&tlsCertificateKeyFile=/not/there.pem",
        ] {
            assert!(settings(uri).await.is_none(), "{uri}");
        }
    }

    #[tokio::test]
    async fn a_versioned_api_goes_with_every_command() {
        let mut options = ClientOptions::parse("mongodb://h").await.unwrap();
        options.server_api = Some(ServerApi::builder().version(ServerApiVersion::V1).strict(true).build());
        let fields = rawdoc! {"apiVersion": "1", "apiStrict": true};
        assert_eq!(Settings::from_driver_options(&options).unwrap().appended, fields);
    }

    #[test]
    fn passwords_are_hashed_once() {
        let login = Login::new("u", "pencil", "admin", None);
        let first = login.salted(Mechanism::ScramSha256, b"salt", 4096).unwrap();
        login.salted.lock().unwrap().as_mut().unwrap().password = b"kept".to_vec();
        assert_eq!(login.salted(Mechanism::ScramSha256, b"salt", 4096).unwrap(), b"kept");
        assert_ne!(login.salted(Mechanism::ScramSha256, b"other", 4096).unwrap(), first);
        assert_eq!(login.salted(Mechanism::ScramSha256, b"salt", 4096).unwrap(), first);
    }

    #[test]
    fn addresses_are_read_as_servers_tell_them() {
        assert_eq!(Address::parse("h:1"), Some(Address::Tcp("h".to_owned(), 1)));
        assert_eq!(Address::parse("h").unwrap().to_string(), "h:27017");
        assert_eq!(Address::parse(""), None);
    }
}
