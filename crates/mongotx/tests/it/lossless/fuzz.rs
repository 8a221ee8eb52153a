//! Random values full of names that Extended JSON uses, written and read in every way.
//! `PROPTEST_CASES=5000 cargo test -p mongotx --test it lossless::fuzz` runs for longer.

use bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp, oid::ObjectId, spec::BinarySubtype};
use mongotx::Isolation;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

use super::{
    compare::{check_inside, check_outside},
    world,
};

/// Number of values in the gate.
const CASES: u32 = 12;

const NAMES: [&str; 24] = [
    "$numberLong",
    "$numberInt",
    "$numberDouble",
    "$numberDecimal",
    "$oid",
    "$date",
    "$code",
    "$scope",
    "$undefined",
    "$timestamp",
    "$symbol",
    "$minKey",
    "$maxKey",
    "$binary",
    "$uuid",
    "$regularExpression",
    "$dbPointer",
    "base64",
    "subType",
    "pattern",
    "t",
    "i",
    "x",
    "",
];

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        Just(Bson::Null),
        Just(Bson::Undefined),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        any::<bool>().prop_map(Bson::from),
        any::<i32>().prop_map(Bson::from),
        any::<i64>().prop_map(Bson::from),
        any::<u64>().prop_map(|bits| Bson::Double(f64::from_bits(bits))),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
        any::<i64>().prop_map(|ms| DateTime::from_millis(ms).into()),
        any::<[u8; 12]>().prop_map(|bytes| ObjectId::from_bytes(bytes).into()),
        (1..u32::MAX, any::<u32>()).prop_map(|(time, increment)| Timestamp { time, increment }.into()),
        (
            any::<u8>().prop_filter("lengths of its own", |kind| *kind != 2),
            proptest::collection::vec(any::<u8>(), 0..5)
        )
            .prop_map(|(kind, bytes)| Bson::Binary(Binary { subtype: BinarySubtype::from(kind), bytes })),
        prop_oneof!["[0-9]{1,3}", "[a-z\u{e9}\u{65e5}\u{0}]{0,6}", Just("2020-01-01T00:00:00Z".to_owned())]
            .prop_map(Bson::from),
        "[a-z]{0,3}".prop_map(Bson::JavaScriptCode),
        "[a-z]{0,3}".prop_map(Bson::Symbol),
    ]
}

fn fields(value: impl Strategy<Value = Bson>) -> impl Strategy<Value = Bson> {
    let field = (proptest::sample::select(&NAMES[..]), value);
    proptest::collection::vec(field, 1..4).prop_map(|fields| {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
        Bson::Document(fields.collect::<Document>())
    })
}

fn value() -> impl Strategy<Value = Bson> {
    let nested = scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            3 => fields(inner.clone()),
            1 => proptest::collection::vec(inner, 0..4).prop_map(Bson::Array),
        ]
    });
    fields(nested)
}

#[tokio::test]
async fn random_lookalikes() {
    let (client, driver, name) = world("lossless_fuzz").await;
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let mut runner = TestRunner::new(Config::default());
    for n in 0..cases {
        let value = value().new_tree(&mut runner).unwrap().current();
        check_outside::<Document>(&client, &driver, &format!("{name}_a{n}"), &value).await;
        check_inside::<Document>(&client, &driver, &format!("{name}_b{n}"), &value, Isolation::ReadCommitted).await;
        for db in ["ap", "ao", "bp", "bo"] {
            driver.database(&format!("{name}_{}{n}{}", &db[..1], &db[1..])).drop().await.unwrap();
        }
    }
}
