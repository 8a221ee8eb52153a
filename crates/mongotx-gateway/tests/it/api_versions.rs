//! `apiVersion`, `apiStrict`, `apiDeprecationErrors`: taken and refused as by a one-node replica
//! set.

use bson::{Bson, Document, doc};

use crate::{
    common::commands::{Client, Session, code, documents, is_ok},
    side_by_side::pair::Pair,
};

fn strict(mut command: Document) -> Document {
    command.extend(doc! {"apiVersion": "1", "apiStrict": true});
    command
}

/// Sends all commands to gateway and server, and shows where their replies differ.
async fn all_same(test: &str, commands: Vec<Document>) {
    let mut pair = Pair::start(test).await;
    let mut different = Vec::new();
    for command in commands {
        let (ours, theirs) = pair.ask(command.clone()).await;
        let same = (ours.get("ok"), code(&ours), ours.get("codeName"))
            == (theirs.get("ok"), code(&theirs), theirs.get("codeName"));
        if !same {
            different.push(format!("{command}\n  ours:   {ours}\n  theirs: {theirs}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[tokio::test]
async fn versions_are_judged_the_same() {
    let said = [
        doc! {"apiVersion": "2"},
        doc! {"apiVersion": 1},
        doc! {"apiVersion": ""},
        doc! {"apiVersion": null, "apiStrict": null},
        doc! {"apiVersion": "1", "apiStrict": 1},
        doc! {"apiVersion": "1", "apiStrict": "x"},
        doc! {"apiVersion": "1", "apiDeprecationErrors": 1},
        doc! {"apiStrict": true},
        doc! {"apiStrict": false},
        doc! {"apiDeprecationErrors": true},
        doc! {"apiVersion": "1"},
        doc! {"apiVersion": "1", "apiStrict": true, "apiDeprecationErrors": true},
    ];
    let mut commands = vec![doc! {"insert": "c", "documents": [{"_id": 1}]}];
    for command in [
        doc! {"find": "c"},
        doc! {"find": "c", "filter": {"_id": 1}, "limit": 1, "singleBatch": true},
        doc! {"insert": "d", "documents": [{"a": 1}]},
        doc! {"distinct": "c", "key": "a"},
        doc! {"ping": 1},
        doc! {"hello": 1},
        doc! {"whatsmyuri": 1},
        doc! {"buildInfo": 1},
        doc! {"getnonce": 1},
        doc! {"noSuchCommand": 1},
    ] {
        for said in &said {
            let mut command = command.clone();
            command.extend(said.clone());
            commands.push(command);
        }
    }
    all_same("api_versions", commands).await;
}

/// Fields that are not in version 1 are refused in whatever state they are.
#[tokio::test]
async fn fields_outside_the_version_are_refused_the_same() {
    let with = |mut command: Document, field: &str, value: Bson| {
        command.insert(field, value);
        strict(command)
    };
    let create = |name: &str| doc! {"create": name};
    let mut commands = vec![doc! {"insert": "c", "documents": [{"_id": 1}]}];
    for (field, value) in [
        ("min", Bson::from(doc! {"_id": 1})),
        ("max", doc! {}.into()),
        ("returnKey", false.into()),
        ("showRecordId", Bson::Null),
        ("tailable", false.into()),
        ("awaitData", false.into()),
        ("oplogReplay", false.into()),
        ("noCursorTimeout", true.into()),
        ("readOnce", false.into()),
        ("hint", doc! {"_id": 1}.into()),
        ("collation", doc! {"locale": "en"}.into()),
        ("let", doc! {}.into()),
        ("allowDiskUse", true.into()),
        ("comment", "x".into()),
        ("batchSize", 2.into()),
    ] {
        commands.push(with(doc! {"find": "c"}, field, value.clone()));
        commands.push(strict(doc! {"explain": {"find": "c", field: value}}));
    }
    commands.extend([
        with(doc! {"aggregate": "c", "pipeline": [], "cursor": {}}, "explain", false.into()),
        with(create("n1"), "capped", true.into()),
        with(create("n2"), "size", 4096.into()),
        with(create("n3"), "storageEngine", doc! {}.into()),
        with(create("n4"), "validator", doc! {"a": 1}.into()),
        with(create("n5"), "changeStreamPreAndPostImages", doc! {"enabled": false}.into()),
        with(doc! {"collMod": "c"}, "validator", doc! {}.into()),
        with(doc! {"collMod": "c"}, "dryRun", true.into()),
        strict(doc! {"createIndexes": "c", "indexes": [{"key": {"t": "text"}, "name": "t"}]}),
        strict(doc! {"createIndexes": "c", "indexes": [{"key": {"t": "2dsphere"}, "name": "s"}]}),
        strict(doc! {"explain": {"distinct": "c", "key": "a"}}),
        doc! {"explain": {"find": "c", "apiVersion": "2"}},
        strict(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}], "bypassDocumentValidation": true}),
        strict(doc! {"listIndexes": "c", "includeBuildUUIDs": true}),
        strict(doc! {"count": "c", "query": {"a": 1}}),
        strict(doc! {"renameCollection": "a.b", "to": "a.c"}),
    ]);
    all_same("api_fields", commands).await;
}

#[tokio::test]
async fn stages_outside_the_version_are_refused_the_same() {
    let mut commands = vec![doc! {"insert": "c", "documents": [{"_id": 1, "a": 1}]}];
    for stage in [
        doc! {"$indexStats": {}},
        doc! {"$planCacheStats": {}},
        doc! {"$listSessions": {}},
        doc! {"$fill": {"output": {"a": {"value": 0}}}},
        doc! {"$collStats": {"count": {}}},
        doc! {"$collStats": {"storageStats": {}}},
        doc! {"$lookup": {"from": "c", "as": "x", "pipeline": [{"$indexStats": {}}]}},
        doc! {"$lookup": {"from": "c", "as": "x", "pipeline": [{"$limit": 1}]}},
        doc! {"$facet": {"a": [{"$planCacheStats": {}}]}},
        doc! {"$unionWith": {"coll": "c", "pipeline": [{"$indexStats": {}}]}},
        doc! {"$unionWith": "c"},
        doc! {"$merge": "d"},
    ] {
        commands.push(strict(doc! {"aggregate": "c", "pipeline": [stage.clone()], "cursor": {}}));
        commands.push(strict(doc! {"explain": {"aggregate": "c", "pipeline": [stage], "cursor": {}}}));
    }
    commands.push(strict(doc! {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}));
    commands.push(strict(doc! {"create": "v", "viewOn": "c", "pipeline": [{"$indexStats": {}}]}));
    all_same("api_stages", commands).await;
}

/// The server's own list says which commands are in which version.
#[tokio::test]
async fn commands_are_in_the_versions_that_the_server_says() {
    let client = Client::start("api_list").await;
    let server = local_mongod::shared_standalone().await.unwrap();
    let direct = mongodb::Client::with_uri_str(server.uri()).await.unwrap();
    let theirs = direct.database("admin").run_command(doc! {"listCommands": 1}).await.unwrap();
    let ours = client.ok(doc! {"listCommands": 1}).await;
    let (ours, theirs) = (ours.get_document("commands").unwrap(), theirs.get_document("commands").unwrap());
    let mut compared = 0;
    for (name, ours) in ours {
        let Ok(theirs) = theirs.get_document(name) else { continue };
        let ours = ours.as_document().unwrap();
        for field in ["apiVersions", "deprecatedApiVersions"] {
            assert_eq!(ours.get_array(field).unwrap(), theirs.get_array(field).unwrap(), "{name}");
        }
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

/// Commands of a transaction say the same. Another version does not end it, a field outside the
/// version does.
#[tokio::test]
async fn transactions_keep_to_what_their_first_command_says() {
    let mut pair = Pair::start("api_tx").await;
    pair.same(doc! {"insert": "c", "documents": [{"_id": 1}]}).await;
    let versioned = |mut command: Document| {
        command.insert("apiVersion", "1");
        command
    };
    let find = || doc! {"find": "c", "filter": {"_id": 1}};
    let other = doc! {"distinct": "c", "key": "a"};
    for (first, then, expected) in [
        (find(), versioned(find()), 347),
        (versioned(find()), find(), 347),
        (versioned(find()), strict(find()), 347),
        (strict(find()), versioned(find()), 347),
        (strict(find()), strict(other), 323),
        (strict(find()), strict(doc! {"find": "c", "min": {}}), 323),
        (versioned(find()), versioned(find()), 0),
    ] {
        let session = Session::new();
        pair.same(session.first(first.clone())).await;
        let answer = pair.same(session.next(then.clone())).await;
        assert_eq!(code(&answer), expected, "{then}");
        // As the transaction stands then.
        let mut again = find();
        for field in ["apiVersion", "apiStrict"] {
            again.extend(first.get(field).map(|said| (field.to_owned(), said.clone())));
        }
        pair.same(session.next(again)).await;
        pair.same(session.commit()).await;
        let mut commit = session.commit();
        commit.extend(first.into_iter().filter(|(field, _)| field.starts_with("api")));
        pair.same(commit).await;
    }
}

#[tokio::test]
async fn cursors_keep_to_what_their_query_says() {
    let client = Client::start("api_cursor").await;
    client.ok(doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}, {"_id": 3}]}).await;
    let reply = client.ok(strict(doc! {"find": "c", "batchSize": 1})).await;
    let more = doc! {"getMore": crate::common::commands::cursor_id(&reply), "collection": "c"};
    assert_eq!(code(&client.run_command(more.clone()).await), 347);
    assert_eq!(documents(&client.ok(strict(more)).await, "nextBatch").len(), 2);
}

/// `getnonce` is answered, and never the same. The server writes a number of 64 bits without its
/// leading zeros: one answer in sixteen is shorter than 16 digits.
#[tokio::test]
async fn nonces_are_answered_as_by_the_server() {
    let mut pair = Pair::start("nonce").await;
    let (ours, theirs) = pair.ask(doc! {"getnonce": 1}).await;
    let (again, _) = pair.ask(doc! {"getnonce": 1}).await;
    let nonce = |reply: &Document| reply.get_str("nonce").unwrap().to_owned();
    for reply in [&ours, &theirs] {
        let nonce = nonce(reply);
        let number = u64::from_str_radix(&nonce, 16);
        assert!(is_ok(reply) && number.is_ok(), "{reply}");
    }
    assert_ne!(nonce(&ours), nonce(&again));
    assert!(ours.keys().eq(theirs.keys()), "{ours} {theirs}");
}

/// Commands that write nothing take no write concern.
#[tokio::test]
async fn write_concerns_are_taken_where_something_is_written() {
    let mut commands = vec![doc! {"insert": "c", "documents": [{"_id": 1}]}];
    for concern in [Bson::from(doc! {"w": 1}), doc! {}.into(), 5.into()] {
        for command in [
            doc! {"explain": {"find": "c"}},
            doc! {"explain": {"delete": "c", "deletes": [{"q": {}, "limit": 1}]}},
            doc! {"find": "c"},
            doc! {"count": "c"},
            doc! {"distinct": "c", "key": "a"},
            doc! {"ping": 1},
            doc! {"listCollections": 1},
            doc! {"listIndexes": "c"},
            doc! {"aggregate": "c", "pipeline": [], "cursor": {}},
            doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
            doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
            doc! {"collMod": "c"},
            doc! {"drop": "missing"},
        ] {
            let mut command = command;
            command.insert("writeConcern", concern.clone());
            commands.push(command);
        }
    }
    commands.push(doc! {"explain": {"find": "c", "writeConcern": {"w": 1}}});
    all_same("write_concerns", commands).await;
}

/// A gateway that did not see the transaction's first command learns its version from the commit.
#[tokio::test]
async fn a_commit_at_another_gateway_can_be_sent_again() {
    let one = Client::start("gw_api_recovery").await;
    let two = Client::with_database(one.db.clone()).await;
    let session = Session::new();
    let begun = one.ok(strict(session.first(doc! {"insert": "c", "documents": [{"_id": 1}]}))).await;
    assert!(is_ok(&one.run_on("admin", strict(session.commit())).await));
    let mut commit = strict(session.commit());
    commit.insert("recoveryToken", begun.get_document("recoveryToken").unwrap().clone());
    for _ in 0..2 {
        let learnt = two.run_on("admin", commit.clone()).await;
        assert!(is_ok(&learnt), "{learnt}");
    }
}
