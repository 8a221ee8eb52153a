//! The privileges that commands need, by their rows and their fields.

use bson::{Document, doc};

use crate::{
    access::{
        Access, CommandToCheck,
        Need::{self, Define, Manage, Read, Write},
    },
    command::access_of,
};

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
        (doc! {"getMore": 5_i64, "collection": "c"}, vec![]),
        (doc! {"explain": {"getMore": 5_i64, "collection": "c"}}, d(Need::Root)),
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
        (doc! {"collMod": "v", "viewOn": "system.users"}, vec![(Manage, "d".to_owned()), (Need::Root, "d".to_owned())]),
        (
            doc! {"collMod": "v", "pipeline": [{"$unionWith": "system.users"}]},
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
        (doc! {"insert": "c", "bypassDocumentValidation": 1}, vec![(Write, "d".to_owned()), (Manage, "d".to_owned())]),
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
