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
    /// Like [`Access::On`]; the collection stands in the field `collection`.
    OnCursor(Need),
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
            Self::Open | Self::Own | Self::On(_) | Self::OnCursor(_) => false,
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
pub(super) struct CommandToCheck<'a> {
    pub(super) access: Access,
    pub(super) name: &'a str,
    pub(super) database: &'a str,
    /// The database in which MongoTx keeps its records; only `root` may touch it.
    pub(super) own: &'a str,
    /// The rule of another command, by its name.
    pub(super) access_of: fn(&str) -> Access,
}

impl CommandToCheck<'_> {
    /// The demands of a command; `command` has the fields that its [`Access`] is about.
    pub(super) fn demands(&self, command: &Document) -> Vec<Demand> {
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
            Access::Open | Access::Own => {}
            Access::On(need) => demands.collection(command.get(name), need),
            Access::OnCursor(need) => {
                demands.collection(command.get(name), need);
                if let Some(collection) = command.get("collection") {
                    demands.collection(Some(collection), need);
                }
            }
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
                    pipeline::add(demands, command.get("pipeline"));
                }
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
            Access::On(need) | Access::OnCursor(need) => demands.collection(inner.get(name), need),
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

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::command::access_of;
    use Need::{Define, Manage, Read, Write};

    fn needs(command: Document) -> Vec<(Need, String)> {
        let name = command.keys().next().cloned().unwrap_or_default();
        let asked = CommandToCheck { access: access_of(&name), name: &name, database: "d", own: "own", access_of };
        asked.demands(&command).into_iter().map(|demand| (demand.need, demand.database)).collect()
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
            (doc! {"renameCollection": "e.c", "to": "e.k"}, on(Write, "e")),
            (doc! {"renameCollection": "e.c", "to": "f.c"}, vec![(Write, "e".to_owned()), (Write, "f".to_owned())]),
            (
                doc! {"renameCollection": "own.c", "to": "e.c"},
                vec![(Need::Root, "own".to_owned()), (Write, "e".to_owned())],
            ),
            (
                doc! {"renameCollection": "e.system.users", "to": "e.c"},
                vec![(Need::Root, "d".to_owned()), (Write, "e".to_owned())],
            ),
            (doc! {"explain": {"find": "c"}}, d(Read)),
            (doc! {"explain": {"delete": "c"}}, d(Write)),
            (doc! {"explain": {"count": bson::Uuid::new()}}, d(Need::Root)),
            (doc! {"explain": {"serverStatus": 1}}, d(Need::Monitor)),
            (doc! {"explain": 1}, d(Need::Root)),
            (doc! {"create": "v", "viewOn": "c"}, vec![(Define, "d".to_owned()), (Read, "d".to_owned())]),
            (
                doc! {"collMod": "v", "viewOn": "system.users"},
                vec![(Manage, "d".to_owned()), (Need::Root, "d".to_owned())],
            ),
            (doc! {"mapReduce": "c", "out": {"inline": 1}}, d(Read)),
            (doc! {"mapReduce": "system.users", "out": {"inline": 1}}, d(Need::Root)),
            (doc! {"mapReduce": "c", "out": "o"}, vec![(Read, "d".to_owned()), (Write, "d".to_owned())]),
            (
                doc! {"mapReduce": "c", "out": {"merge": "o", "db": "e"}},
                vec![(Read, "d".to_owned()), (Write, "e".to_owned())],
            ),
            (
                doc! {"explain": {"mapReduce": "c", "out": {"reduce": "system.users"}}},
                vec![(Read, "d".to_owned()), (Need::Root, "d".to_owned())],
            ),
            (doc! {"mapReduce": "c", "out": 5}, vec![(Read, "d".to_owned()), (Need::Root, "d".to_owned())]),
            (doc! {"currentOp": 1}, d(Need::Monitor)),
            (doc! {"currentOp": 1, "$ownOps": true}, vec![]),
            (doc! {"noSuchThing": 1}, d(Need::Root)),
            (doc! {"insert": "c", "bypassDocumentValidation": 0}, d(Write)),
            (
                doc! {"insert": "c", "bypassDocumentValidation": 1},
                vec![(Write, "d".to_owned()), (Manage, "d".to_owned())],
            ),
            (doc! {"aggregate": "c", "pipeline": [], "bypassDocumentValidation": true}, d(Read)),
            (
                doc! {"aggregate": "c", "pipeline": [{"$out": {"db": "e", "coll": "c"}}], "bypassDocumentValidation": true},
                vec![(Read, "d".to_owned()), (Write, "e".to_owned()), (Manage, "e".to_owned())],
            ),
        ] {
            assert_eq!(needs(command.clone()), wanted, "{command}");
        }
        let asked = CommandToCheck { access: Access::On(Read), name: "find", database: "own", own: "own", access_of };
        assert_eq!(asked.demands(&doc! {"find": "c"})[0].need, Need::Root);
    }
}
