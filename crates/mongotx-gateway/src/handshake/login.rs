//! `saslStart`, `saslContinue`, `logout`, and the login that a `hello` may begin
//! (`speculativeAuthenticate`).
//!
//! Unknown users get the same exchange, with a salt that looks like any other, and fail at its end:
//! the messages to the client, and the work for them, are the same as with a wrong password. A
//! connection that fails too often is closed.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use mongowire::scram::Mechanism;

use crate::{
    access::{ClientFirst, Conversation, LoginRefused, Roster, Stage, UserName, Users},
    connection::Connection,
    context::Context,
    failure::{Answer, Failure, codes},
    fields::{Fields, type_name},
    request::{Request, WholeCommand},
};

/// Failed logins after which a connection is closed.
const MOST_FAILURES: u32 = 5;
/// The number of every conversation: there is one at a time on a connection.
const CONVERSATION: i32 = 1;
/// Bytes of the gateway's half of the nonce.
const NONCE_BYTES: usize = 24;

/// Answers `saslStart`.
///
/// # Errors
/// The server's, for what begins no login.
pub(super) fn start(context: &Context, connection: &Connection, request: &Request) -> Answer<Document> {
    let users = users(context)?;
    begin(context, &users, connection, request.database(), request.to_document()?)
}

/// Answers `saslContinue`.
///
/// # Errors
/// The server's errors: 18 if the login fails.
pub(super) fn proceed(context: &Context, connection: &Connection, request: &Request) -> Answer<Document> {
    users(context)?;
    carry_on(context, connection, request.to_document()?)
}

fn users(context: &Context) -> Answer<Arc<Users>> {
    let text = "clients cannot log in to this gateway: it was started without --users; connect without a user";
    context.users.as_ref().map(Roster::now).ok_or_else(|| Failure::new(codes::COMMAND_NOT_SUPPORTED, text))
}

/// Adds the beginning of a login to the reply of a `hello` that requests one, and the mechanisms if
/// it requests those. A login that cannot begin is left out: the client will try in the usual way,
/// and get the error then.
///
/// # Errors
/// The server's errors for fields of a wrong form.
pub(super) fn speculate(
    context: &Context,
    connection: &Connection,
    request: &Request,
    reply: &mut Document,
) -> Result<(), Failure> {
    let Some(users) = context.users.as_ref().map(Roster::now) else { return Ok(()) };
    let mut fields = Fields::new(request.name(), request.to_document()?);
    if let Some(name) = fields.text("saslSupportedMechs")? {
        if !name.contains('.') {
            let text = "UserName must contain a '.' separated database.user pair";
            return Err(Failure::new(codes::BAD_VALUE, text));
        }
        // The answer is the same for every name, so that it does not reveal which users exist.
        let names: Vec<Bson> = Mechanism::ALL.iter().map(|one| one.name().into()).collect();
        reply.insert("saslSupportedMechs", names);
    }
    if let Some(command) = fields.document("speculativeAuthenticate")? {
        let database = command.get_str("db").unwrap_or("admin").to_owned();
        if command.contains_key("saslStart")
            && let Ok(begun) = begin(context, &users, connection, &database, command)
        {
            reply.insert("speculativeAuthenticate", begun);
        }
    }
    Ok(())
}

/// `logout`: the connection's user, whatever database it names.
pub(super) fn logout(connection: &Connection) -> Document {
    connection.login(|login| (login.user, login.conversation) = (None, None));
    doc! {"ok": 1.0}
}

fn begin(
    context: &Context,
    users: &Users,
    connection: &Connection,
    database: &str,
    command: Document,
) -> Answer<Document> {
    let mut fields = Fields::new("saslStart", command);
    let mechanism = fields.text("mechanism")?;
    let mechanism = fields.required("mechanism", mechanism)?;
    let payload = take_payload(&mut fields)?;
    let options = fields.document("options")?.unwrap_or_default();
    connection.login(|login| login.conversation = None);
    let Some(mechanism) = Mechanism::of_name(&mechanism) else {
        let mechanism: String = mechanism.chars().take(100).collect();
        let text = format!("Received authentication for mechanism {mechanism} which is not enabled");
        return Err(Failure::new(codes::MECHANISM_UNAVAILABLE, text));
    };
    let first = match ClientFirst::parse(&payload) {
        Ok(first) => first,
        Err(refused) => return Err(fail(context, connection, mechanism, None, &refused)),
    };
    let name = UserName { database: database.to_owned(), name: first.user.clone() };
    if let Some(user) = connection.user().filter(|user| user.name != name) {
        let text = format!("this connection is logged in as {}; log out first", user.name);
        return Err(Failure::new(codes::ILLEGAL_OPERATION, text));
    }
    let (user, credential) = users.find(mechanism, &name);
    let ours = BASE64_STANDARD.encode(rand::random::<[u8; NONCE_BYTES]>());
    let (exchange, message) = first.answer(mechanism, credential, &ours);
    let skips_empty = options.get_bool("skipEmptyExchange").unwrap_or(false);
    let conversation = Conversation { mechanism, name, user, skips_empty, stage: Stage::Proof(exchange) };
    connection.login(|login| login.conversation = Some(conversation));
    Ok(said(message, false))
}

fn carry_on(context: &Context, connection: &Connection, command: Document) -> Answer<Document> {
    let mut fields = Fields::new("saslContinue", command);
    let id = fields.number("conversationId")?;
    let id = fields.required("conversationId", id)?;
    let payload = take_payload(&mut fields)?;
    let protocol = |text: &str| Failure::new(codes::PROTOCOL_ERROR, text);
    let conversation = connection.login(|login| login.conversation.take());
    let mut conversation = conversation.ok_or_else(|| protocol("No SASL session state found"))?;
    if id != i64::from(CONVERSATION) {
        return Err(protocol("sasl: Mismatched conversation id"));
    }
    let exchange = match conversation.stage {
        Stage::Proof(exchange) => exchange,
        Stage::Empty if payload.is_empty() => return Ok(log_in(context, connection, conversation, Vec::new())),
        Stage::Empty => return Err(protocol("an empty message was to come")),
    };
    let proven = exchange.finish(&payload);
    let (mechanism, name) = (conversation.mechanism, conversation.name.clone());
    match (proven, &conversation.user) {
        (Ok(message), Some(_)) if conversation.skips_empty => {
            conversation.stage = Stage::Empty;
            Ok(log_in(context, connection, conversation, message))
        }
        (Ok(message), Some(_)) => {
            conversation.stage = Stage::Empty;
            connection.login(|login| login.conversation = Some(conversation));
            Ok(said(message, false))
        }
        (Ok(_) | Err(LoginRefused::Proof), None) => {
            Err(fail(context, connection, mechanism, Some(&name), &LoginRefused::Unknown))
        }
        (Err(refused), _) => Err(fail(context, connection, mechanism, Some(&name), &refused)),
    }
}

fn log_in(context: &Context, connection: &Connection, conversation: Conversation, message: Vec<u8>) -> Document {
    tracing::info!(
        connection = connection.id(), user = ?conversation.name.to_string(), mechanism = conversation.mechanism.name(),
        "logged in",
    );
    context.tx.metrics.login(true);
    connection.login(|login| (login.user, login.failures) = (conversation.user, 0));
    said(message, true)
}

/// Notes that a login failed. What is answered is the same whatever the reason.
fn fail(
    context: &Context,
    connection: &Connection,
    mechanism: Mechanism,
    name: Option<&UserName>,
    reason: &LoginRefused,
) -> Failure {
    let name = name.map(UserName::to_string).unwrap_or_default();
    tracing::warn!(
        connection = connection.id(), peer = %connection.peer(), user = ?name, mechanism = mechanism.name(), %reason,
        "a login was refused",
    );
    context.tx.metrics.login(false);
    let failures = connection.login(|login| {
        login.failures += 1;
        login.failures
    });
    if failures >= MOST_FAILURES {
        connection.close_after_answer();
    }
    Failure::new(codes::AUTHENTICATION_FAILED, "Authentication failed.")
}

fn said(message: Vec<u8>, done: bool) -> Document {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: message };
    doc! {"conversationId": CONVERSATION, "done": done, "payload": payload, "ok": 1.0}
}

/// Bytes, or (as old clients send it) base64.
fn take_payload(fields: &mut Fields) -> Answer<Vec<u8>> {
    let payload = fields.any("payload");
    match fields.required("payload", payload)? {
        Bson::Binary(binary) => Ok(binary.bytes),
        Bson::String(text) => BASE64_STANDARD
            .decode(text)
            .map_err(|_| Failure::new(codes::INVALID_PAYLOAD, "Failed decoding SASL payload: invalid base64")),
        other => {
            let found = type_name(&other);
            let text = format!("Invalid SASLPayload type. Expected Base64 or BinData, got: {found}");
            Err(Failure::new(codes::BAD_VALUE, text))
        }
    }
}
