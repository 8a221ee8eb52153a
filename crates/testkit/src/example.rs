//! Setup of a documentation example of `mongotx` that talks to a server, in one hidden line.

/// Starts a server for a documentation example, connects a `mongotx::Client` to it, and opens
/// collections of the database `bank`. The first name is the variable of the client; each further
/// name is the variable and the name of a collection. The server ends with the example.
///
/// It is used in an async function whose error converts from `mongotx::Error`, in a crate that
/// depends on `mongotx`; this crate does not.
///
/// ```text
/// # testkit::example!(client, accounts);
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
