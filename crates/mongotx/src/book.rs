//! The Rust code of the guide and of the README, as doctests: it compiles, and what has a server
//! runs.

macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../../", $file))]
            struct $name;
        )*
    };
}

pages! {
    FirstTransaction: "docs/guide/first-transaction.md",
    RetriesAndOutcomes: "docs/guide/retries-and-outcomes.md",
    ChoosingALevel: "docs/guide/choosing-a-level.md",
    IndexesAndQueries: "docs/guide/indexes-and-queries.md",
    Install: "docs/guide/install.md",
    GatewayWithEachDriver: "docs/guide/gateway-with-each-driver.md",
    RunningIt: "docs/guide/running-it.md",
    Backup: "docs/guide/backup.md",
    Api: "docs/api.md",
    Aggregation: "docs/aggregation.md",
    Sharding: "docs/sharding.md",
    Readme: "README.md",
    CrateReadme: "crates/mongotx/README.md",
}
