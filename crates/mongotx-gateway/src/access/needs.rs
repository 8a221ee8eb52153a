//! The privileges that each command needs, from its row in the table of commands. Pure.
//!
//! Privileges follow MongoDB's own roles. An unknown command needs `root`; so does an `explain` of
//! a command that cannot be explained.

use bson::{Bson, Document};

use super::{
    demands::{Demand, Demands, is_system},
    pipeline,
    role::Need,
};
use crate::fields::is_asked;

/// The option of writes that validators do not judge.
pub(super) const BYPASS_VALIDATION: &str = "bypassDocumentValidation";

/// The rule by which a command's privileges are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Every connection may send it, as in MongoDB: commands that clients need to learn where they
    /// are and to log in.
    Open,
    /// Every user who is logged in: commands that touch only what is the user's own.
    Own,
    /// This privilege on the command's database.
    On(Need),
    /// Every user who is logged in: reading on from a cursor that the user has opened, which the
    /// table of cursors checks. The privileges were those of the command that has opened it.
    OfCursor,
    /// Reading the collection, and the privileges for the stages of `pipeline`.
    Pipeline,
    /// Reading the collection, and writing to the one that `out` names.
    MapReduce,
    /// Writing to both collections, which are named with their databases.
    Rename,
    /// As [`Access::On`]; of a view also who may read what it shows.
    View(Need),
    /// Reading the collection that is named with its database.
    FullName,
    /// [`Need::Monitor`] for operations of other users (`$ownOps` is not true); none for the user's
    /// own.
    Operations,
    /// The privileges of the command that is explained.
    Inner,
}

impl Access {
    /// Returns true if the privileges depend on more than the collections that the command itself
    /// names.
    pub(super) fn is_inside(self) -> bool {
        match self {
            Self::Open | Self::Own | Self::On(_) | Self::OfCursor => false,
            Self::Pipeline
            | Self::MapReduce
            | Self::Rename
            | Self::View(_)
            | Self::FullName
            | Self::Operations
            | Self::Inner => true,
        }
    }
}

/// A command whose privileges are wanted: its rule from the table, and the name that it was sent
/// with.
pub(crate) struct CommandToCheck<'a> {
    pub(crate) access: Access,
    pub(crate) name: &'a str,
    pub(crate) database: &'a str,
    /// The database in which MongoTx keeps its records; only `root` may touch it.
    pub(crate) own: &'a str,
    /// The rule of another command, by its name.
    pub(crate) access_of: fn(&str) -> Access,
}

impl CommandToCheck<'_> {
    /// The demands of a command; `command` has the fields that its [`Access`] is about.
    pub(crate) fn demands(&self, command: &Document) -> Vec<Demand> {
        let mut demands = Demands::on(self.database);
        self.add(&mut demands, self.access, self.name, command);
        if is_asked(command.get(BYPASS_VALIDATION)) {
            // As MongoDB, where `readWrite` does not have the privilege, and `dbAdmin` has.
            demands.add_to_writes(Need::Manage);
        }
        demands.all_with_own(self.own)
    }

    fn add(&self, demands: &mut Demands<'_>, access: Access, name: &str, command: &Document) {
        match access {
            Access::Open | Access::Own | Access::OfCursor => {}
            Access::On(need) => demands.collection(command.get(name), need),
            Access::Pipeline => {
                if pipeline::begins_with_operations(command.get("pipeline")) {
                    return pipeline::add_operations(demands, command.get("pipeline"));
                }
                demands.collection(command.get(name), Need::Read);
                pipeline::add(demands, command.get("pipeline"));
            }
            Access::MapReduce => {
                demands.collection(command.get(name), Need::Read);
                pipeline::add_results(demands, command.get("out"));
            }
            Access::Rename => [name, "to"].iter().for_each(|field| add_full(demands, command.get(*field), Need::Write)),
            Access::View(need) => {
                demands.collection(command.get(name), need);
                if let Some(source) = command.get("viewOn") {
                    // A user of the view reads through it with the rights of its maker, so the
                    // maker needs these.
                    demands.collection(Some(source), Need::Read);
                }
                pipeline::add(demands, command.get("pipeline"));
            }
            Access::FullName => add_full(demands, command.get(name), Need::Read),
            Access::Operations if command.get_bool("$ownOps").unwrap_or(false) => {}
            Access::Operations => demands.add(Need::Monitor),
            Access::Inner => self.add_explained(demands, command.get(name)),
        }
    }

    /// Adds the demands of the explained command, as if it were run.
    fn add_explained(&self, demands: &mut Demands<'_>, command: Option<&Bson>) {
        let inner = command.and_then(Bson::as_document);
        let Some((inner, name)) = inner.and_then(|inner| Some((inner, inner.keys().next()?))) else {
            return demands.add(Need::Root);
        };
        match (self.access_of)(name) {
            access @ (Access::Pipeline | Access::MapReduce) => self.add(demands, access, name, inner),
            Access::On(need) => demands.collection(inner.get(name), need),
            _ => demands.add(Need::Root),
        }
    }
}

/// Adds a demand on a collection that is named with its database.
fn add_full(demands: &mut Demands<'_>, name: Option<&Bson>, need: Need) {
    match name.and_then(Bson::as_str).map(|full| full.split_once('.')) {
        Some(Some((database, collection))) if !is_system(collection) => demands.add_on(need, database.to_owned()),
        _ => demands.add(Need::Root),
    }
}
