//! `mapReduce`: the server's answers, over committed documents only.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::ClientOptions;
use mongotx_gateway::GatewayOptions;

use crate::common::commands::{Client, Session, code, is_ok};
use crate::side_by_side::pair::Pair;

const MAP: &str = "function() { emit(this.a, this.n); }";
const SUM: &str = "function(key, values) { return Array.sum(values); }";

fn five() -> Document {
    let documents: Vec<Document> = (1..=5).map(|n| doc! {"_id": n, "a": n % 2, "n": n}).collect();
    doc! {"insert": "c", "documents": documents}
}

fn code_of(source: &str) -> Bson {
    Bson::JavaScriptCode(source.to_owned())
}

fn sum(more: Document) -> Document {
    let mut command = doc! {"mapReduce": "c", "map": code_of(MAP), "reduce": code_of(SUM)};
    command.extend(more);
    command
}

fn inline(more: Document) -> Document {
    let mut command = sum(doc! {"out": {"inline": 1}});
    command.extend(more);
    command
}

#[tokio::test]
async fn map_reduce_is_answered_the_same() {
    let mut pair = Pair::start("cmp_mr").await;
    let scope = doc! {"plus": 10, "f": code_of("function(x) { return x * 2; }"), "o": {"a": [1, "x\"y"], "l": 5_i64}};
    let scoped =
        "function(key, value) { return [value + plus, f(value), o.a[1], o.l.toNumber(), o.l instanceof NumberLong]; }";
    let whole = "function() { emit({a: this.a}, {d: this, n: NumberInt(3), l: NumberLong(7), t: new Date(0)}); }";
    let mut different = Vec::new();
    for command in [
        five(),
        doc! {"create": "view", "viewOn": "c", "pipeline": []},
        inline(doc! {}),
        inline(doc! {"map": MAP, "reduce": SUM, "verbose": true, "jsMode": true, "maxTimeMS": 60_000, "comment": "x"}),
        inline(doc! {"query": {"a": 1}, "sort": {"n": -1}, "limit": 2}),
        inline(doc! {"query": null, "sort": null, "scope": null, "collation": {"locale": "en"}}),
        inline(
            doc! {"map": "function() { emit(this.s.toLowerCase(), 1); }", "query": {"s": "X"}, "collation": {"locale": "en"}},
        ),
        inline(doc! {"finalize": "function(key, value) { return {key: key, value: value}; }"}),
        inline(doc! {"finalize": code_of(scoped), "scope": scope}),
        inline(doc! {"map": "function() { emit(this.a + plus, this.n); };", "scope": {"plus": 1.5}}),
        inline(doc! {"map": whole, "query": {"_id": 1}}),
        inline(doc! {"map": "emit(1, 1)"}),
        inline(doc! {"map": "function() { emit(undefined, 1); }", "reduce": "function(k, v) { return v.length; }"}),
        inline(doc! {"map": "function() { emit(1); }"}),
        inline(doc! {"map": "function() { nothing.there(); }"}),
        inline(doc! {"map": "function( {"}),
        inline(doc! {"reduce": "function() { throw 5; }"}),
        inline(doc! {"map": 3}),
        inline(
            doc! {"map": Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code: MAP.to_owned(), scope: doc! {} })},
        ),
        doc! {"mapReduce": "c", "map": MAP, "out": {"inline": 1}},
        inline(doc! {"limit": -1}),
        inline(doc! {"limit": 0}),
        inline(doc! {"sort": {}}),
        inline(doc! {"limit": "x"}),
        inline(doc! {"unknown": 1}),
        inline(doc! {"sort": {"a": "x"}}),
        inline(doc! {"readConcern": {"level": "linearizable"}}),
        inline(doc! {"readConcern": {"level": "snapshot"}}),
        inline(doc! {"writeConcern": {"w": 1}}),
        inline(doc! {"mapReduce": "missing"}),
        inline(doc! {"mapReduce": "view"}),
        inline(doc! {"mapReduce": 5}),
        inline(doc! {"map": "function() { emit(this._id, 'x'.repeat(4000000)); }"}),
        doc! {"mapreduce": "c", "map": MAP, "reduce": SUM, "out": "o"},
        doc! {"find": "o", "sort": {"_id": 1}},
        sum(doc! {"out": {"merge": "o", "nonAtomic": true}, "map": "function() { emit(this.n, 1); }"}),
        doc! {"find": "o", "sort": {"_id": 1}},
        sum(doc! {"out": {"reduce": "o"}, "finalize": "function(key, value) { return value + 0.5; }"}),
        doc! {"find": "o", "sort": {"_id": 1}},
        sum(
            doc! {"out": {"reduce": "o"}, "reduce": "function(k, v) { return Array.sum(v) * by; }", "scope": {"by": 2}},
        ),
        doc! {"find": "o", "sort": {"_id": 1}},
        sum(doc! {"out": {"replace": "o"}, "query": {"a": 7}}),
        doc! {"find": "o"},
        sum(doc! {}),
        sum(doc! {"out": 3}),
        sum(doc! {"out": {}}),
        sum(doc! {"out": ""}),
        sum(doc! {"out": {"inline": 2}}),
        sum(doc! {"out": {"inline": 1, "db": "x"}}),
        sum(doc! {"out": {"other": "o"}}),
        sum(doc! {"out": {"replace": "o", "db": 3}}),
        sum(doc! {"out": {"merge": "o", "nonAtomic": false}}),
        sum(doc! {"out": "system.x"}),
        Session::new().first(inline(doc! {})),
    ] {
        let (ours, theirs) = pair.ask(command.clone()).await;
        if ours != theirs {
            different.push(format!("{command}\n  ours:   {ours}\n  theirs: {theirs}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    let (ours, theirs) = pair.errors_words(inline(doc! {"map": "function() { nothing.there(); }"})).await;
    assert_eq!(ours, theirs);
    let (ours, theirs) = pair.errors_words(Session::new().first(inline(doc! {}))).await;
    assert_eq!(ours, theirs);
}

#[tokio::test]
async fn results_go_to_another_database() {
    let mut pair = Pair::start("cmp_mr_db").await;
    pair.same(five()).await;
    let out = doc! {"replace": "o", "db": local_mongod::unique_db("cmp_mr_other")};
    let (ours, theirs) = pair.ask(sum(doc! {"out": out.clone()})).await;
    assert_eq!(ours, theirs);
    assert_eq!(ours.get_document("result").unwrap().get_str("collection").unwrap(), "o");
}

/// `map` emits what it gets of each document: uncommitted versions and MongoTx's own fields are not
/// part of it.
#[tokio::test]
async fn what_is_not_committed_is_not_mapped_and_what_is_committed_is() {
    let mut pair = Pair::start("cmp_mr_pending").await;
    pair.same(five()).await;
    let seen = inline(doc! {"map": "function() { emit(this._id, tojson(this)); }", "sort": {"_id": 1}});
    let before = pair.same(seen.clone()).await;
    let writer = Session::new();
    pair.same(writer.first(doc! {"insert": "c", "documents": [{"_id": 6, "a": 0, "n": 6}]})).await;
    pair.same(writer.next(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 100}}}]})).await;
    pair.same(writer.next(doc! {"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]})).await;
    assert_eq!(pair.same(seen.clone()).await, before);
    // A filter on whole documents.
    pair.same(inline(doc! {"query": {"$expr": {"$eq": [{"$size": {"$objectToArray": "$$ROOT"}}, 3]}}})).await;
    pair.same(inline(doc! {"query": {"n": {"$gt": 5}}})).await;
    pair.same(writer.commit()).await;
    let after = pair.same(seen).await;
    assert_ne!(after, before);
}

/// Plans are those of the server's own pipeline, and write nothing.
#[tokio::test]
async fn a_map_reduce_is_explained() {
    let mut pair = Pair::start("cmp_mr_plan").await;
    pair.same(five()).await;
    for out in [Bson::from(doc! {"inline": 1}), "o".into(), doc! {"merge": "o"}.into()] {
        for verbosity in ["queryPlanner", "executionStats"] {
            let (ours, theirs) =
                pair.ask(doc! {"explain": sum(doc! {"out": out.clone()}), "verbosity": verbosity}).await;
            assert_eq!(code(&ours), code(&theirs), "{out} {verbosity}: {ours} {theirs}");
            let stages = |reply: &Document| reply.get_array("stages").map_or(0, Vec::len);
            assert_eq!(stages(&ours), stages(&theirs), "{ours} {theirs}");
        }
    }
    pair.same(doc! {"find": "o"}).await;
}

/// Neither way to a collection takes a document from the transaction that holds it.
#[tokio::test]
async fn results_do_not_overwrite_what_a_transaction_holds() {
    let client = ClientOptions { write_wait: Duration::ZERO, ..ClientOptions::default() };
    let options = GatewayOptions { client, ..GatewayOptions::default() };
    let gateway = Client::with_options(local_mongod::unique_db("mr_held"), options).await;
    gateway.ok(five()).await;
    gateway.ok(doc! {"insert": "o", "documents": [{"_id": 1, "value": 1}, {"_id": 0, "value": 0}]}).await;
    let holder = Session::new();
    let update = doc! {"update": "o", "updates": [{"q": {"_id": 1}, "u": {"$set": {"value": 50}}}]};
    gateway.ok(holder.first(update)).await;
    for how in ["replace", "merge", "reduce"] {
        let refused = gateway.run_command(sum(doc! {"out": {how: "o"}})).await;
        assert_eq!(code(&refused), 112, "{how}: {refused}");
    }
    assert!(is_ok(&gateway.run_on("admin", holder.commit()).await));
    gateway.ok(sum(doc! {"out": {"reduce": "o"}})).await;
    let one = gateway.all("o").await.pop().unwrap();
    assert_eq!(one, doc! {"_id": 1, "value": 59.0});
}
