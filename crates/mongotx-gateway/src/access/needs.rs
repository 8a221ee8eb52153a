//! What each command needs of its user. Pure.
//!
//! The table follows MongoDB's own roles. A command that is not in it needs `root`, so that one that is added
//! to the gateway and forgotten here is open to nobody.

use bson::{Bson, Document};

use super::{pipeline, role::Need};

/// Before any privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Anybody who can connect, as in MongoDB: what clients need to find out where they are and to log in.
    Open,
    /// Anybody who is logged in: what touches nothing but the user's own.
    Own,
    /// Who has this on the command's database.
    On(Need),
    /// As [`Access::On`], for what else its fields name: see [`demands`].
    Inside,
}

use Access::{Inside, On, Open, Own};
use Need::{Define, Manage, Read, See, Write};

const TABLE: &[(&[&str], Access)] = &[
    (&["hello", "isMaster", "ismaster", "ping", "buildInfo", "buildinfo", "whatsmyuri"], Open),
    (&["connectionStatus", "listCommands", "saslStart", "saslContinue", "authenticate", "getnonce"], Open),
    (&["logout", "startSession", "endSessions", "refreshSessions", "killSessions"], Own),
    (&["commitTransaction", "abortTransaction"], Own),
    (&["features", "availableQueryOptions", "driverOIDTest"], Own),
    // Shows the databases that the user has a role on.
    (&["listDatabases"], Own),
    // Ends the user's own.
    (&["killCursors"], Own),
    (&["listCollections", "listIndexes"], On(See)),
    (&["dbStats", "dbstats", "collStats", "collstats", "dbHash", "dbhash"], On(See)),
    (&["find", "getMore", "count", "distinct"], On(Read)),
    (&["insert", "update", "delete", "findAndModify", "findandmodify"], On(Write)),
    (&["drop", "createIndexes", "dropIndexes", "deleteIndexes"], On(Define)),
    (&["dropDatabase", "validate", "compact", "reIndex", "profile"], On(Manage)),
    (&["planCacheClear", "planCacheClearFilters", "planCacheListFilters", "planCacheSetFilter"], On(Manage)),
    (&["aggregate", "explain", "create", "collMod", "dataSize", "datasize", "currentOp"], Inside),
];

/// What must be had, and on which database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) need: Need,
    pub(super) database: String,
}

pub(super) fn access(name: &str) -> Access {
    TABLE.iter().find(|(names, _)| names.contains(&name)).map_or(On(Need::Root), |(_, access)| *access)
}

/// What a command needs. `own`: the database in which MongoTx keeps its records; only `root` may touch it.
pub(super) fn demands(name: &str, database: &str, command: &Document, own: &str) -> Vec<Demand> {
    let mut demands = Demands { database, all: Vec::new() };
    match access(name) {
        Open | Own => return demands.all,
        On(need) => {
            demands.collection(command.get(name), need);
            if let Some(collection) = command.get("collection").filter(|_| name == "getMore") {
                demands.collection(Some(collection), need);
            }
        }
        Inside => demands.inside(name, command),
    }
    for demand in &mut demands.all {
        if demand.database == own {
            demand.need = Need::Root;
        }
    }
    demands.all
}

/// Demands of a command on one database, as far as they are known.
pub(super) struct Demands<'a> {
    database: &'a str,
    all: Vec<Demand>,
}

impl Demands<'_> {
    /// On the command's own database.
    pub(super) fn add(&mut self, need: Need) {
        self.add_on(need, self.database.to_owned());
    }

    /// On another one.
    pub(super) fn add_on(&mut self, need: Need, database: String) {
        let demand = Demand { need, database };
        if !self.all.contains(&demand) {
            self.all.push(demand);
        }
    }

    /// On a collection. Those of the server itself, and names that are none (the server takes ids as well), are for `root`.
    pub(super) fn collection(&mut self, name: Option<&Bson>, need: Need) {
        self.add(match name {
            Some(Bson::String(name)) if is_system(name) => Need::Root,
            Some(Bson::String(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Boolean(_)) => need,
            _ => Need::Root,
        });
    }

    fn inside(&mut self, name: &str, command: &Document) {
        match name {
            "aggregate" => {
                self.collection(command.get(name), Read);
                pipeline::add(self, command.get("pipeline"));
            }
            "create" | "collMod" => {
                self.collection(command.get(name), if name == "create" { Define } else { Manage });
                if let Some(source) = command.get("viewOn") {
                    // Whoever may read the view will read through it: as much as its maker may.
                    self.collection(Some(source), Read);
                    pipeline::add(self, command.get("pipeline"));
                }
            }
            "explain" => self.explained(command.get(name)),
            // Names its collection with the database.
            "dataSize" | "datasize" => {
                match command.get(name).and_then(Bson::as_str).map(|full| full.split_once('.')) {
                    Some(Some((database, collection))) if !is_system(collection) => {
                        self.add_on(Read, database.to_owned());
                    }
                    _ => self.add(Need::Root),
                }
            }
            "currentOp" if command.get_bool("$ownOps").unwrap_or(false) => {}
            _ => self.add(Need::Root),
        }
    }

    /// As if it was not explained but run.
    fn explained(&mut self, command: Option<&Bson>) {
        let inner = command.and_then(Bson::as_document);
        let name = inner.and_then(|inner| inner.keys().next());
        match (inner, name) {
            (Some(inner), Some(name)) if name == "aggregate" => self.inside(name, inner),
            (Some(inner), Some(name)) => match access(name) {
                On(need) => self.collection(inner.get(name), need),
                _ => self.add(Need::Root),
            },
            _ => self.add(Need::Root),
        }
    }
}

/// The server's own collections, but for the one with functions of users.
pub(super) fn is_system(collection: &str) -> bool {
    collection.starts_with("system.") && collection != "system.js"
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::dispatch::{Route, routes};

    #[test]
    fn every_command_that_is_carried_out_is_in_the_table_or_meant_for_root() {
        const ROOT: &[&str] = &[
            "renameCollection",
            "serverStatus",
            "mapReduce",
            "mapreduce",
            "killAllSessions",
            "killAllSessionsByPattern",
            "configureFailPoint",
            "getCmdLineOpts",
            "hostInfo",
            "getParameter",
            "getLog",
            "top",
            "lockInfo",
            "connPoolStats",
            "killOp",
            "fsync",
            "fsyncUnlock",
            "logRotate",
            "getDefaultRWConcern",
        ];
        let carried_out = routes().filter(|(_, route)| !matches!(route, Route::Refused(..)));
        for name in carried_out.flat_map(|(names, _)| names.iter()) {
            let listed = TABLE.iter().any(|(names, _)| names.contains(name));
            assert!(listed != ROOT.contains(name), "{name}");
        }
    }

    fn needs(command: Document) -> Vec<(Need, String)> {
        let name = command.keys().next().cloned().unwrap_or_default();
        demands(&name, "d", &command, "own").into_iter().map(|demand| (demand.need, demand.database)).collect()
    }

    #[test]
    fn fields_that_reach_further_need_more() {
        let on = |need: Need, database: &str| vec![(need, database.to_owned())];
        let d = |need: Need| on(need, "d");
        for (command, wanted) in [
            (doc! {"find": "c"}, d(Read)),
            (doc! {"find": "system.users"}, d(Need::Root)),
            (doc! {"find": bson::Uuid::new()}, d(Need::Root)),
            (doc! {"getMore": 5_i64, "collection": "c"}, d(Read)),
            (doc! {"dataSize": "d.c"}, d(Read)),
            (doc! {"dataSize": "e.c"}, on(Read, "e")),
            (doc! {"dataSize": "own.c"}, on(Need::Root, "own")),
            (doc! {"dataSize": "e.system.users"}, d(Need::Root)),
            (doc! {"dataSize": 1}, d(Need::Root)),
            (doc! {"explain": {"find": "c"}}, d(Read)),
            (doc! {"explain": {"delete": "c"}}, d(Write)),
            (doc! {"explain": {"count": bson::Uuid::new()}}, d(Need::Root)),
            (doc! {"explain": {"serverStatus": 1}}, d(Need::Root)),
            (doc! {"explain": 1}, d(Need::Root)),
            (doc! {"create": "v", "viewOn": "c"}, vec![(Define, "d".to_owned()), (Read, "d".to_owned())]),
            (
                doc! {"collMod": "v", "viewOn": "system.users"},
                vec![(Manage, "d".to_owned()), (Need::Root, "d".to_owned())],
            ),
            (doc! {"currentOp": 1}, d(Need::Root)),
            (doc! {"currentOp": 1, "$ownOps": true}, vec![]),
            (doc! {"noSuchThing": 1}, d(Need::Root)),
        ] {
            assert_eq!(needs(command.clone()), wanted, "{command}");
        }
        assert_eq!(demands("find", "own", &doc! {"find": "c"}, "own")[0].need, Need::Root);
    }
}
