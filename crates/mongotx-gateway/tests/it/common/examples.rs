//! Every command that MongoTx gives its meaning, and values that are mostly wrong in it.

use bson::{Bson, Document, doc};

/// Commands as they should be.
pub fn commands() -> Vec<Document> {
    let session = || doc! {"id": bson::Uuid::from_bytes([9; 16])};
    vec![
        doc! {"find": "c", "filter": {}, "sort": {}, "projection": {}, "limit": 1, "skip": 0, "batchSize": 1, "hint": "_id_",
        "singleBatch": true, "collation": {"locale": "en"}, "let": {}, "maxTimeMS": 1000, "comment": 1},
        doc! {"getMore": 1_i64, "collection": "c", "batchSize": 1, "maxTimeMS": 1},
        doc! {"killCursors": "c", "cursors": [1_i64]},
        doc! {"insert": "c", "documents": [{"a": 1}], "ordered": true, "bypassDocumentValidation": false},
        doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}], "ordered": true, "let": {}},
        doc! {"delete": "c", "deletes": [{"q": {"x": 1}, "limit": 1}], "ordered": true, "let": {}},
        doc! {"findAndModify": "c", "query": {"x": 1}, "update": {"$set": {"a": 1}}, "new": true, "upsert": false,
        "fields": {}, "sort": {}, "arrayFilters": []},
        doc! {"aggregate": "c", "pipeline": [{"$match": {}}], "cursor": {}, "explain": false, "allowDiskUse": true},
        doc! {"count": "c", "query": {}, "limit": 1, "skip": 0, "hint": {"_id": 1}},
        doc! {"distinct": "c", "key": "a", "query": {}},
        doc! {"explain": {"find": "c", "filter": {}}, "verbosity": "queryPlanner"},
        doc! {"create": "made", "capped": false, "validator": {}},
        doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
        doc! {"dropIndexes": "c", "index": "a_1"},
        doc! {"listIndexes": "c", "cursor": {}},
        doc! {"listCollections": 1, "filter": {}, "nameOnly": true, "cursor": {}},
        doc! {"collMod": "c", "validator": {}},
        doc! {"drop": "made"},
        doc! {"renameCollection": "x.c", "to": "x.d"},
        doc! {"listDatabases": 1, "nameOnly": true, "filter": {}},
        doc! {"dbStats": 1, "scale": 1},
        doc! {"collStats": "c", "scale": 1},
        doc! {"validate": "c", "full": false},
        doc! {"serverStatus": 1},
        doc! {"currentOp": 1},
        doc! {"endSessions": [session()]},
        doc! {"refreshSessions": [session()]},
        doc! {"killSessions": [session()]},
        doc! {"killAllSessions": []},
        doc! {"killAllSessionsByPattern": []},
        doc! {"hello": 1, "compression": [], "helloOk": true},
        doc! {"connectionStatus": 1, "showPrivileges": true},
        doc! {"configureFailPoint": "failCommand", "mode": "off", "data": {}},
        doc! {"mapReduce": "c", "map": "function() {}", "reduce": "function() {}", "finalize": "function() {}", "query": {}, "sort": {},
        "limit": 1, "scope": {"a": 1}, "out": {"inline": 1}, "verbose": true, "jsMode": false, "collation": {"locale": "en"}},
    ]
}

/// The fields that every command may carry.
pub fn generic() -> Document {
    doc! {
        "lsid": {"id": bson::Uuid::from_bytes([8; 16])}, "txnNumber": 1_i64, "autocommit": false, "startTransaction": true,
        "readConcern": {"level": "local"}, "writeConcern": {"w": 1}, "$readPreference": {"mode": "primary"},
        "$clusterTime": {"clusterTime": bson::Timestamp { time: 1, increment: 1 }}, "stmtId": 0,
    }
}

/// Values that are mostly wrong.
pub fn values() -> Vec<Bson> {
    let deep = (0..100).fold(doc! {}, |inner, _| doc! {"$and": [inner]});
    vec![
        Bson::Null,
        Bson::Undefined,
        true.into(),
        (-1).into(),
        i32::MAX.into(),
        i64::MIN.into(),
        f64::NAN.into(),
        1e300.into(),
        "".into(),
        "$a.b\0c".into(),
        Bson::Document(doc! {}),
        Bson::Document(doc! {"": "", "$x": [null]}),
        Bson::Document(doc! {"$numberLong": "5"}),
        Bson::Document(doc! {"$date": "garbage"}),
        Bson::Document(doc! {"$oid": "0123456789abcdef01234567", "$code": "1"}),
        Bson::Document(deep),
        Bson::Array(Vec::new()),
        Bson::Array(vec![
            Bson::Null,
            1.into(),
            Bson::Document(doc! {}),
            Bson::Document(doc! {"q": 1, "u": 1, "key": 1}),
        ]),
        Bson::from(bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![1; 3] }),
        Bson::MinKey,
        bson::Timestamp { time: u32::MAX, increment: u32::MAX }.into(),
    ]
}
