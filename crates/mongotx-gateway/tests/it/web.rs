//! The page for operators: who may see it, what it shows, and what its buttons do.
//! (`drivers/browser` tries it in a browser.)

use crate::common;

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use bson::{DateTime, Document, doc, oid::ObjectId};
use common::{
    driver, options, soon,
    users::{PASSWORD, with_users},
};
use mongotx_gateway::{Gateway, GatewayOptions, Limits, StartError, UserName, Users};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

fn with_page(options: GatewayOptions) -> GatewayOptions {
    GatewayOptions { web: Some("127.0.0.1:0".parse().unwrap()), ..options }
}

async fn start() -> (Gateway, Page) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let gateway = Gateway::start(with_page(options(&server.uri(), Limits::default()))).await.unwrap();
    let page = Page::of(&gateway);
    (gateway, page)
}

/// A client of the page.
#[derive(Clone)]
struct Page {
    address: SocketAddr,
    headers: Vec<(String, String)>,
}

/// An answer over HTTP.
struct Answered {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn of(gateway: &Gateway) -> Self {
        let address = gateway.web_address().unwrap();
        Self { address, headers: Vec::new() }.with("Host", &address.to_string())
    }

    /// The same client with this header, and no other of its name.
    fn with(&self, name: &str, value: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(known, _)| known != name);
        headers.push((name.to_owned(), value.to_owned()));
        Self { address: self.address, headers }
    }

    fn logged_in(&self, name: &str, password: &str) -> Self {
        self.with("Authorization", &format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}"))))
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Answered {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        let mut stream = soon(TcpStream::connect(self.address)).await.unwrap();
        // A request may be refused before it is read to its end.
        let _ = soon(stream.write_all(request.as_bytes())).await;
        let mut answer = Vec::new();
        let _ = soon(stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answered { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    async fn get(&self, path: &str) -> Answered {
        self.ask("GET", path, "").await
    }

    async fn state(&self) -> Value {
        let answered = self.get("/state").await;
        assert_eq!(answered.status, 200, "{}", answered.body);
        serde_json::from_str(&answered.body).unwrap()
    }

    /// The same page, with the token that it was served with.
    async fn with_token(&self) -> Self {
        let page = self.get("/").await.body;
        let token = page.split("name=\"token\" content=\"").nth(1).unwrap().split('"').next().unwrap();
        self.with("X-MongoTx-Token", token)
    }

    async fn act(&self, path: &str, what: Value) -> (u16, Value) {
        let answered = self.ask("POST", path, &what.to_string()).await;
        (answered.status, serde_json::from_str(&answered.body).unwrap_or(Value::Null))
    }
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere_and_no_other_page_may_use_it() {
    let (_gateway, page) = start().await;
    for (path, kind) in
        [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css"), ("/state", "json")]
    {
        let answered = page.get(path).await;
        assert!(answered.status == 200 && answered.head.contains(kind), "{path}: {}", answered.head);
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "frame-ancestors 'none'",
            "x-frame-options: deny",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answered.head.contains(header), "{path}: {}", answered.head);
        }
    }
    // A name that was made to lead here.
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        assert_eq!(page.with("Host", host).get("/").await.status, 403, "{host}");
    }
    assert_eq!(page.with("Host", "localhost:5").get("/").await.status, 200);
    // A page of another origin.
    let token = page.with_token().await;
    for (header, value) in [("Origin", "http://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")] {
        assert_eq!(token.with(header, value).get("/state").await.status, 403, "{header}");
        assert_eq!(token.with(header, value).act("/repair", json!({})).await.0, 403, "{header}");
    }
    let own = format!("http://{}", page.address);
    assert_eq!(token.with("Origin", &own).act("/abort", json!({"transaction": "x"})).await.0, 400);
    assert_eq!(page.with("Origin", &own).act("/repair", json!({})).await.0, 403, "without the token");
    assert_eq!(page.with("X-MongoTx-Token", "0").act("/repair", json!({})).await.0, 403);
    assert_eq!(token.ask("DELETE", "/repair", "").await.status, 405);
    assert_eq!(token.get("/other").await.status, 404);
    assert_eq!(token.ask("POST", "/abort", &"x".repeat(10_000)).await.status, 413);
    for nonsense in ["", "5", "{}", "{\"session\": \"x\"}", "{\"session\": 5, \"transaction\": []}"] {
        assert_eq!(token.ask("POST", "/abort", nonsense).await.status, 400, "{nonsense}");
    }
}

#[tokio::test]
async fn what_is_in_flight_is_shown_and_rolled_back_by_a_button() {
    let (gateway, page) = start().await;
    let client = driver(gateway.address().unwrap(), "appName=%3Cshop%3E&").await;
    let collection = client.database(&local_mongod::unique_db("gw_web")).collection::<Document>("c");
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    collection.insert_one(doc! {"_id": 1, "name": "a secret"}).session(&mut session).await.unwrap();
    let state = page.state().await;
    assert!(!state.to_string().contains("a secret"), "{state}");
    let [open] = &state["operations"].as_array().unwrap()[..] else { panic!("{state}") };
    assert_eq!(
        (&open["who"]["application"], &open["idle"], &state["open"]),
        (&json!("<shop>"), &json!(true), &json!(1))
    );
    assert_eq!(open["namespace"], json!(collection.namespace().to_string()));
    assert!(open["transaction"].is_string() && open["shape"].as_str().unwrap().contains("insert"), "{open}");

    let token = page.with_token().await;
    let meant = json!({"session": open["session"], "number": open["number"]});
    let another = json!({"session": open["session"], "number": "77"});
    assert_eq!(token.act("/abort", another).await.0, 400);
    assert_eq!(page.state().await["open"], json!(1));
    let (status, done) = token.act("/abort", meant.clone()).await;
    assert!(status == 200 && done["done"].as_str().unwrap().contains("rolled back"), "{done}");
    let refused = collection.insert_one(doc! {"_id": 2}).session(&mut session).await.unwrap_err();
    assert!(refused.contains_label("TransientTransactionError"), "{refused}");
    let state = page.state().await;
    assert_eq!((&state["open"], state["operations"].as_array().unwrap().len()), (&json!(0), 0));
    let ended = &state["ended"][0];
    assert_eq!((&ended["was"]["who"]["application"], &ended["reason"]), (&json!("<shop>"), &json!("session_ended")));
    assert_eq!(token.act("/abort", meant).await.0, 400, "it is over");

    // Ended by its id, as one of another gateway or client.
    let _ = session.abort_transaction().await;
    session.start_transaction().await.unwrap();
    collection.insert_one(doc! {"_id": 3}).session(&mut session).await.unwrap();
    let id = page.state().await["operations"][0]["transaction"].clone();
    assert_eq!(token.act("/abort", json!({"transaction": id})).await.0, 200);
    session.commit_transaction().await.unwrap_err();
    assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 0);

    // The state has the seconds since the one that the request names, and no others.
    let seconds = async {
        loop {
            let state = page.state().await;
            let seconds = state["seconds"].as_array().unwrap();
            if seconds.iter().any(|second| second["sorts"][1][0].as_u64().unwrap() > 0) {
                return seconds.last().unwrap()["at"].as_u64().unwrap();
            }
        }
    };
    let last = soon(seconds).await;
    let later = page.get(&format!("/state?since={last}")).await.body;
    let later: Value = serde_json::from_str(&later).unwrap();
    assert!(later["seconds"].as_array().unwrap().iter().all(|second| second["at"].as_u64().unwrap() > last), "{later}");
}

#[tokio::test]
async fn a_command_that_runs_is_ended_by_a_button() {
    let (gateway, page) = start().await;
    let client = driver(gateway.address().unwrap(), "").await;
    let collection = client.database(&local_mongod::unique_db("gw_web_end")).collection::<Document>("c");
    collection.insert_one(doc! {"_id": 1}).await.unwrap();
    let endless = doc! {"$where": "while (true) {}"};
    let running = tokio::spawn({
        let collection = collection.clone();
        async move { collection.find_one(endless).await }
    });
    let opid = async {
        loop {
            let state = page.state().await;
            let found = state["operations"].as_array().unwrap().iter().find(|one| one["command"] == "find").cloned();
            if let Some(found) = found {
                return found["opid"].clone();
            }
        }
    };
    let opid = soon(opid).await;
    let token = page.with_token().await;
    assert_eq!(token.act("/end", json!({"opid": "5"})).await.0, 400);
    let (status, done) = token.act("/end", json!({"opid": opid})).await;
    assert_eq!(status, 200, "{done}");
    let refused = soon(running).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("interrupted"), "{refused}");
}

#[tokio::test]
async fn what_a_dead_client_has_left_is_shown_and_repaired_by_a_button() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let made = with_page(options(&server.uri(), Limits::default()));
    let records = made.client.tx_database.clone();
    let gateway = Gateway::start(made).await.unwrap();
    let page = Page::of(&gateway);
    let stored = mongodb::Client::with_uri_str(server.uri()).await.unwrap();
    let collection = stored.database(&local_mongod::unique_db("gw_web_dead")).collection::<Document>("c");
    let dead = ObjectId::new();
    let held = doc! {"_id": 1, "n": 1, "_xTxId": {"c": dead, "n": 1_i64}, "_unsafe": {"_id": 1, "n": 2}};
    collection.insert_one(held).await.unwrap();
    let long_ago = DateTime::from_millis(1_500_000_000_000);
    let record = doc! {
        "_id": dead, "stamp": 0_i64, "beat": long_ago, "leaseMs": 1_000_i64, "low": 1_i64, "committed": [], "rolledBack": [],
        "aborted": [], "namespaces": [collection.namespace().to_string()],
        "about": {"application": "the dead", "host": "h", "process": 5_i64},
    };
    stored.database(&records).collection::<Document>("txs").insert_one(record).await.unwrap();
    let shown = async {
        loop {
            let state = page.state().await;
            if let Some(found) = state["clients"]["list"].as_array().unwrap().iter().find(|one| one["dead"] == true) {
                return found.clone();
            }
        }
    };
    let shown = soon(shown).await;
    assert_eq!((&shown["id"], &shown["application"]), (&json!(dead.to_string()), &json!("the dead")));
    let token = page.with_token().await;
    let (status, held) = token.act("/holds", json!({"client": shown["id"]})).await;
    let [transaction] = &held["transactions"].as_array().unwrap()[..] else { panic!("{status}: {held}") };
    assert_eq!((&transaction["written"], &transaction["id"]), (&json!(1), &json!(format!("{dead}.1"))));
    let (status, done) = token.act("/repair", json!({})).await;
    assert!(status == 200 && done["done"].as_str().unwrap().contains("repaired: 1"), "{done}");
    assert_eq!(collection.find_one(doc! {}).await.unwrap().unwrap(), doc! {"_id": 1, "n": 1});
}

#[tokio::test]
async fn users_log_in_monitors_look_and_only_root_acts() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let made = with_page(options(&server.uri(), Limits::default()));
    let all = [
        ("root@admin", "root"),
        ("boss@shop", "root"),
        ("monitor@admin", "clusterMonitor"),
        ("writer@admin", "readWrite:d"),
    ];
    let (made, folder) = with_users(made, &all);
    let gateway = Gateway::start(made).await.unwrap();
    let page = Page::of(&gateway);
    let stranger = page.get("/").await;
    assert!(stranger.status == 401 && stranger.head.contains("www-authenticate: basic"), "{}", stranger.head);
    assert!(!stranger.body.contains("token"), "{}", stranger.body);
    assert_eq!(page.get("/page.js").await.status, 401);
    let root = page.logged_in("root", &format!("root{PASSWORD}"));
    for (page, wanted) in [
        (root.clone(), 200),
        // Known by now.
        (root.clone(), 200),
        (page.logged_in("shop/boss", &format!("boss{PASSWORD}")), 200),
        (page.logged_in("monitor", &format!("monitor{PASSWORD}")), 200),
        (page.logged_in("writer", &format!("writer{PASSWORD}")), 403),
        (page.logged_in("root", "wrong"), 401),
        (page.logged_in("boss", &format!("boss{PASSWORD}")), 401),
        (page.logged_in("nobody", "x"), 401),
        (page.with("Authorization", "Basic !"), 401),
        (page.with("Authorization", "Bearer x"), 401),
    ] {
        assert_eq!(page.get("/state").await.status, wanted, "{:?}", page.headers);
    }
    let state = root.state().await;
    assert_eq!((&state["user"], &state["may_act"]), (&json!("root@admin"), &json!(true)));
    let monitor = page.logged_in("monitor", &format!("monitor{PASSWORD}")).with_token().await;
    assert_eq!(monitor.state().await["may_act"], json!(false));
    let refused = monitor.ask("POST", "/repair", "{}").await;
    assert!(refused.status == 403 && refused.body.contains("role root"), "{}: {}", refused.status, refused.body);
    assert_eq!(root.with_token().await.act("/repair", json!({})).await.0, 200);
    assert_eq!(page.with("X-MongoTx-Token", "x").act("/repair", json!({})).await.0, 401);
    let name = UserName { database: "admin".to_owned(), name: "root".to_owned() };
    Users::change(&folder.path().join("users.json"), |all| all.remove(&name)).unwrap();
    gateway.reload().await.unwrap();
    assert_eq!(root.get("/state").await.status, 401, "who is removed is not known any more");
}

#[tokio::test]
async fn other_machines_see_it_only_encrypted_and_with_a_password() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let open = GatewayOptions { web: Some("0.0.0.0:0".parse().unwrap()), ..options(&server.uri(), Limits::default()) };
    let refused = Gateway::start(open.clone()).await.err().unwrap();
    assert!(matches!(refused, StartError::ExposedPage { .. }) && refused.to_string().contains("--users"), "{refused}");
    let (open, _folder) = with_users(open, &[("root@admin", "root")]);
    for allow_plaintext in [false, true] {
        let refused = Gateway::start(GatewayOptions { allow_plaintext, ..open.clone() }).await.err().unwrap();
        assert!(refused.to_string().contains("--tls-certificate"), "{refused}");
    }
}

#[tokio::test]
async fn who_asks_slowly_delays_no_other() {
    let (gateway, page) = start().await;
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(soon(TcpStream::connect(page.address)).await.unwrap());
    }
    // There is no room for another one: it is closed at once, as soon as all of those are accepted.
    let mut more = soon(TcpStream::connect(page.address)).await.unwrap();
    let _ = soon(more.read(&mut [0; 8])).await;
    let client = driver(gateway.address().unwrap(), "").await;
    soon(client.database("admin").run_command(doc! {"ping": 1})).await.unwrap();
    drop(silent);
    let answers = async {
        loop {
            let mut stream = TcpStream::connect(page.address).await.unwrap();
            let asked = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", page.address);
            let _ = stream.write_all(asked.as_bytes()).await;
            let mut answer = String::new();
            if stream.read_to_string(&mut answer).await.is_ok() && answer.contains("200 OK") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(answers).await;
}
