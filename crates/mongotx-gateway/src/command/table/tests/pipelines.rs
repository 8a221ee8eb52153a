//! The privileges that stages of pipelines need.

use bson::{Document, doc};

use crate::{
    access::{Access, CommandToCheck, Need},
    command::access_of,
};

fn needs(stage: Document) -> Vec<(Need, String)> {
    let command = doc! {"aggregate": "c", "pipeline": [{"$match": {}}, stage], "cursor": {}};
    let asked = CommandToCheck { access: Access::Pipeline, name: "aggregate", database: "d", own: "own", access_of };
    // The first one is for the collection itself.
    asked.demands(&command).into_iter().skip(1).map(|demand| (demand.need, demand.database)).collect()
}

#[test]
fn the_own_operations_need_nothing_and_those_of_others_to_be_a_monitor() {
    let asked =
        CommandToCheck { access: Access::Pipeline, name: "aggregate", database: "admin", own: "own", access_of };
    let needs = |stages: Vec<Document>| {
        let demanded = asked.demands(&doc! {"aggregate": 1, "pipeline": stages, "cursor": {}});
        demanded.into_iter().map(|demand| demand.need).collect::<Vec<_>>()
    };
    let own = doc! {"$currentOp": {"allUsers": false}};
    assert_eq!(needs(vec![own.clone()]), []);
    assert_eq!(needs(vec![doc! {"$currentOp": {}}, doc! {"$match": {}}]), []);
    let all = doc! {"$currentOp": {"allUsers": true}};
    assert_eq!(needs(vec![all.clone(), doc! {"$match": {}}]), [Need::Monitor]);
    for stages in [
        vec![doc! {"$match": {}}, all],
        vec![doc! {"$currentOp": {"allUsers": 1}}],
        vec![doc! {"$currentOp": 5}],
        vec![own.clone(), own.clone()],
        vec![own.clone(), doc! {"$lookup": {"from": "system.users", "as": "x"}}],
        vec![own.clone(), doc! {"$unionWith": {"coll": "c", "pipeline": [own]}}],
    ] {
        assert!(needs(stages.clone()).contains(&Need::Root), "{stages:?}");
    }
}

#[test]
fn stages_need_what_they_read_and_write() {
    let on = |need: Need, database: &str| vec![(need, database.to_owned())];
    for (stage, wanted) in [
        (doc! {"$group": {"_id": 1}}, vec![]),
        (doc! {"$lookup": {"from": "e", "as": "x"}}, vec![]),
        (doc! {"$lookup": {"from": "system.users", "as": "x"}}, on(Need::Root, "d")),
        (doc! {"$lookup": {"from": {"db": "e", "coll": "c"}, "as": "x"}}, on(Need::Root, "d")),
        (doc! {"$lookup": {"from": "e", "pipeline": [{"$unionWith": "system.users"}], "as": "x"}}, on(Need::Root, "d")),
        (doc! {"$graphLookup": {"from": "system.users"}}, on(Need::Root, "d")),
        (doc! {"$unionWith": {"coll": "e", "pipeline": [{"$lookup": {"from": "system.x"}}]}}, on(Need::Root, "d")),
        (doc! {"$unionWith": {"db": "e", "coll": "e"}}, on(Need::Root, "d")),
        (doc! {"$facet": {"a": [{"$lookup": {"from": "system.x"}}]}}, on(Need::Root, "d")),
        (doc! {"$out": "e"}, on(Need::Write, "d")),
        (doc! {"$out": {"db": "e", "coll": "c"}}, on(Need::Write, "e")),
        (doc! {"$out": {"db": "e", "coll": "system.views"}}, on(Need::Root, "d")),
        (doc! {"$out": {"db": "own", "coll": "txs"}}, on(Need::Root, "own")),
        (doc! {"$out": {"db": 5, "coll": 5}}, on(Need::Root, "d")),
        (doc! {"$merge": "e"}, on(Need::Write, "d")),
        (doc! {"$merge": {"into": {"db": "e", "coll": "c"}}}, on(Need::Write, "e")),
        (doc! {"$merge": {"into": 5}}, on(Need::Root, "d")),
        (doc! {"$indexStats": {}}, on(Need::Manage, "d")),
        (doc! {"$currentOp": {"allUsers": true}}, on(Need::Root, "d")),
        (doc! {"$noSuchStage": 1}, on(Need::Root, "d")),
    ] {
        assert_eq!(needs(stage.clone()), wanted, "{stage}");
    }
}
