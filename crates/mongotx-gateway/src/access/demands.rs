//! The privileges that one command demands, collected step by step. Pure.

use bson::Bson;

use super::role::Need;

/// A privilege, and the database on which it is demanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) need: Need,
    pub(crate) database: String,
}

/// Demands of a command on one database, as far as they are known.
pub(super) struct Demands<'a> {
    database: &'a str,
    all: Vec<Demand>,
}

impl<'a> Demands<'a> {
    /// No demands yet, for a command on this database.
    pub(super) fn on(database: &'a str) -> Self {
        Self { database, all: Vec::new() }
    }

    /// All demands. `own`: the database that only `root` may touch.
    pub(super) fn all_with_own(mut self, own: &str) -> Vec<Demand> {
        for demand in &mut self.all {
            if demand.database == own {
                demand.need = Need::Root;
            }
        }
        self.all
    }

    /// Adds a demand on the command's own database.
    pub(super) fn add(&mut self, need: Need) {
        self.add_on(need, self.database.to_owned());
    }

    /// Demands a privilege on a database that is not the command's own.
    pub(super) fn add_on(&mut self, need: Need, database: String) {
        let demand = Demand { need, database };
        if !self.all.contains(&demand) {
            self.all.push(demand);
        }
    }

    /// Adds this privilege on each database that documents are written to.
    pub(super) fn add_to_writes(&mut self, need: Need) {
        let written = self.all.iter().filter(|demand| demand.need == Need::Write);
        for database in written.map(|demand| demand.database.clone()).collect::<Vec<_>>() {
            self.add_on(need, database);
        }
    }

    /// Demands a privilege on a collection. Collections of the server itself, and values that name
    /// no collection (the server takes ids as well), need `root`.
    pub(super) fn collection(&mut self, name: Option<&Bson>, need: Need) {
        self.add(match name {
            Some(Bson::String(name)) if is_system(name) => Need::Root,
            Some(Bson::String(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Boolean(_)) => need,
            _ => Need::Root,
        });
    }
}

/// Returns true if the collection is one of the server's own; that of users' functions is not.
pub(super) fn is_system(collection: &str) -> bool {
    collection.starts_with("system.") && collection != "system.js"
}
