//! Setup of a documentation example of `mongotx` or `mongotx-gateway` that talks to a server, in
//! one hidden line.

/// Starts a server for a documentation example, connects a `mongotx::Client` to it, and opens
/// collections of the database `bank`. The first name is the variable of the client; each further
/// name is the variable and the name of a collection. The server ends with the example.
///
/// It is used in an async function whose error converts from `mongotx::Error`, in a crate that
/// depends on `mongotx`; this crate does not.
///
/// ```text
/// # local_mongod::example!(client, accounts);
/// accounts.insert_one(&doc! {"_id": 1}).await?;
/// ```
#[macro_export]
macro_rules! example {
    ($client:ident $(, $collection:ident)*) => {
        let server = $crate::ServerOptions::standalone().in_memory().start().await.expect("a mongod");
        let $client = mongotx::Client::connect(&server.uri()).await?;
        $(let $collection: mongotx::Collection = $client.database("bank").collection(stringify!($collection));)*
    };
}

/// Starts a server and a gateway in front of it for a documentation example of `mongotx-gateway`.
/// The name is the variable of the gateway, which listens on a free port of the loopback interface.
/// Both end with the example.
///
/// It is used in an async function, in a crate that depends on `mongotx-gateway`; this crate does
/// not.
///
/// ```text
/// # local_mongod::example_gateway!(gateway);
/// println!("mongodb://{}", gateway.address().expect("it listens"));
/// ```
#[macro_export]
macro_rules! example_gateway {
    ($gateway:ident) => {
        let server = $crate::ServerOptions::standalone().in_memory().start().await.expect("a mongod");
        let options = mongotx_gateway::GatewayOptions {
            uri: server.uri(),
            listen: Some(std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0))),
            ..mongotx_gateway::GatewayOptions::default()
        };
        let $gateway = mongotx_gateway::Gateway::start(options).await.expect("a gateway");
    };
}
