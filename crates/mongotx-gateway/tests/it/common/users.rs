//! A file of users, and a gateway that lets in only these.

use std::net::SocketAddr;

use base64::{Engine, prelude::BASE64_STANDARD};
use bson::{Binary, Document, RawDocumentBuf, doc, raw::CString, spec::BinarySubtype};
use hmac::{Hmac, KeyInit, Mac};
use mongotx_gateway::{Connection, Gateway, GatewayOptions, Limits, Request, Role, UserName, Users};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::options;

/// Every user's password is the name, followed by this.
pub const PASSWORD: &str = "'s pässwörd";

/// A gateway with users `NAME@DATABASE`, each with roles separated by commas.
pub async fn guarded(users: &[(&str, &str)]) -> (Gateway, SocketAddr, TempDir) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (options, folder) = with_users(options(&server.uri(), Limits::default()), users);
    let gateway = Gateway::start(options).await.unwrap();
    let address = gateway.address().unwrap();
    (gateway, address, folder)
}

/// The same options, with these users.
pub fn with_users(mut options: GatewayOptions, users: &[(&str, &str)]) -> (GatewayOptions, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.json");
    for (user, roles) in users {
        let (name, database) = user.split_once('@').unwrap();
        let roles: Vec<Role> = roles.split_terminator(',').map(|role| role.parse().unwrap()).collect();
        let named = UserName { database: database.to_owned(), name: name.to_owned() };
        Users::change(&path, |all| all.add(named, &format!("{name}{PASSWORD}"), roles)).unwrap();
    }
    options.users = Some(path);
    (options, folder)
}

/// The driver, logging in. `mechanism`: empty for the driver's own choice.
pub async fn logging_in(
    address: SocketAddr,
    user: &str,
    password: &str,
    source: &str,
    mechanism: &str,
) -> mongodb::Client {
    use mongodb::options::{AuthMechanism, ClientOptions, Credential};
    let uri = format!("mongodb://{address}/?serverSelectionTimeoutMS=20000");
    let mut options = ClientOptions::parse(uri).await.unwrap();
    let mechanism: Option<AuthMechanism> = (!mechanism.is_empty()).then(|| mechanism.parse().unwrap());
    let mut credential = Credential::default();
    credential.username = Some(user.to_owned());
    credential.password = Some(password.to_owned());
    credential.source = Some(source.to_owned());
    credential.mechanism = mechanism;
    options.credential = Some(credential);
    mongodb::Client::with_options(options).unwrap()
}

/// A client inside this process that has logged in by SCRAM-SHA-256, or has not logged in.
pub struct User<'a> {
    gateway: &'a Gateway,
    connection: Connection,
}

impl<'a> User<'a> {
    /// Logs in as `name`, a user of `admin`.
    pub async fn log_in(gateway: &'a Gateway, name: &str) -> Self {
        let user = Self { gateway, connection: gateway.connect() };
        let bare = format!("n={name},r=0123456789");
        let begun = user.say(doc! {"saslStart": 1, "mechanism": "SCRAM-SHA-256"}, &format!("n,,{bare}")).await;
        let fields: Vec<&str> = begun.split(',').map(|field| &field[2..]).collect();
        let [nonce, salt, iterations] = fields[..] else { panic!("{begun}") };
        let prepared = stringprep::saslprep(&format!("{name}{PASSWORD}")).unwrap().into_owned();
        let salt = BASE64_STANDARD.decode(salt).unwrap();
        let mut salted = [0; 32];
        pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), &salt, iterations.parse().unwrap(), &mut salted);
        let client_key = hmac(&salted, b"Client Key");
        let last = format!("c=biws,r={nonce}");
        let signature = hmac(&Sha256::digest(client_key), format!("{bare},{begun},{last}").as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(one, other)| one ^ other).collect();
        let last = format!("{last},p={}", BASE64_STANDARD.encode(proof));
        user.say(doc! {"saslContinue": 1, "conversationId": 1}, &last).await;
        user.say(doc! {"saslContinue": 1, "conversationId": 1}, "").await;
        user
    }

    async fn say(&self, mut command: Document, payload: &str) -> String {
        command.insert("payload", Binary { subtype: BinarySubtype::Generic, bytes: payload.as_bytes().to_vec() });
        let reply = self.run_command("admin", command).await;
        String::from_utf8(reply.get_binary_generic("payload").unwrap().clone()).unwrap()
    }

    /// The reply to a command of these fields, some of them twice.
    pub async fn run_raw(&self, fields: &[(&str, &str)]) -> Document {
        let mut body = RawDocumentBuf::new();
        for (name, value) in fields {
            body.append(CString::try_from(*name).unwrap(), *value);
        }
        let request = Request::of_parts(body, Vec::new(), None).unwrap();
        Document::try_from(self.gateway.run_command(&self.connection, &request).await.body()).unwrap()
    }

    /// Runs a command, and returns the reply, whatever it is.
    pub async fn run_command(&self, db: &str, mut command: Document) -> Document {
        command.insert("$db", db);
        let reply = self.gateway.run_command(&self.connection, &Request::of(&command).unwrap()).await;
        Document::try_from(reply.body()).unwrap()
    }
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(text).finalize().into_bytes().into()
}
