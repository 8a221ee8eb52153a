//! Random values and documents for the differential tests.

use bson::{Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp, doc, oid::ObjectId, spec::BinarySubtype};

use crate::random::Random;

/// ObjectIds of the generator begin with zeros: see `compare`.
pub(crate) fn object_id(n: u8) -> Bson {
    ObjectId::from_bytes([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, n]).into()
}

pub(crate) fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse::<Decimal128>().unwrap())
}

fn binary(byte: u8) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![byte, 2] })
}

/// The ids that documents have: few, of many types, equal to no other.
fn ids() -> Vec<Bson> {
    vec![
        1.into(),
        2.into(),
        3.into(),
        4.into(),
        5.into(),
        6_i64.into(),
        7.5.into(),
        decimal("8.5"),
        "a".into(),
        "A".into(),
        "b".into(),
        "é日".into(),
        object_id(1),
        object_id(2),
        doc! {"x": 1, "y": "z"}.into(),
        DateTime::from_millis(86_400_000).into(),
        true.into(),
        Bson::Null,
        binary(1),
    ]
}

/// The `_id` of a document to insert.
pub(crate) fn id(random: &mut Random) -> Bson {
    let ids = ids();
    let most = if random.chance(60) { 6 } else { ids.len() };
    ids[random.below(most)].clone()
}

/// The `_id` in a filter: sometimes of another type, or of no document.
pub(crate) fn asked_id(random: &mut Random) -> Bson {
    match random.below(20) {
        0 => 1.0.into(),
        1 => 2_i64.into(),
        2 => decimal("3"),
        3 => 99.into(),
        4 => object_id(9),
        _ => id(random),
    }
}

pub(crate) fn number(random: &mut Random) -> Bson {
    match random.below(10) {
        0 => Bson::Int64(i64::from(random.between(-3, 5))),
        1 => 1.5.into(),
        2 => Bson::Double(random.between(-2, 3).into()),
        3 => decimal("2.50"),
        4 if random.chance(30) => random.pick(&[f64::NAN, -0.0, f64::INFINITY, 1e300]).to_owned().into(),
        4 => Bson::Int32(i32::MAX),
        _ => random.between(-2, 5).into(),
    }
}

pub(crate) fn text(random: &mut Random) -> Bson {
    (*random.pick(&["a", "A", "b", "é", "E", "日本", "", "a b", "$a", "x.y"])).into()
}

/// Anything that is no document and no array.
pub(crate) fn scalar(random: &mut Random) -> Bson {
    match random.below(16) {
        0 | 1 => Bson::Null,
        2 => random.chance(50).into(),
        3 => DateTime::from_millis(1_000 * i64::from(random.between(0, 3))).into(),
        4 => object_id(7),
        5 => binary(5),
        6 => Timestamp { time: 5, increment: 1 }.into(),
        7 if random.chance(30) => odd(random),
        7..=10 => text(random),
        _ => number(random),
    }
}

fn odd(random: &mut Random) -> Bson {
    let pattern = Regex { pattern: "^a".try_into().unwrap(), options: "i".try_into().unwrap() };
    random.pick(&[Bson::MinKey, Bson::MaxKey, pattern.into(), Bson::JavaScriptCode("1".into())]).clone()
}

pub(crate) fn array(random: &mut Random) -> Bson {
    Bson::Array(random.several(4, |random| if random.chance(85) { scalar(random) } else { value(random, 2) }))
}

/// Small integers and strings: what `$push`, `$pull` and positions are about.
pub(crate) fn tags(random: &mut Random) -> Bson {
    Bson::Array(random.several(4, tag))
}

pub(crate) fn tag(random: &mut Random) -> Bson {
    if random.chance(70) { random.between(0, 4).into() } else { text(random) }
}

pub(crate) fn item(random: &mut Random) -> Document {
    let mut item = doc! {"k": random.between(0, 3)};
    if random.chance(80) {
        item.insert("v", if random.chance(80) { random.between(0, 9).into() } else { value(random, 2) });
    }
    item
}

pub(crate) fn inner(random: &mut Random) -> Document {
    let mut inner = Document::new();
    for field in ["x", "y", "t", "0", "ключ"] {
        if random.chance(45) {
            let value = match field {
                "x" => number(random),
                "t" => tags(random),
                _ => value(random, 2),
            };
            inner.insert(field, value);
        }
    }
    inner
}

/// An object that looks like Extended JSON: to a server it is one like any other.
fn lookalike(random: &mut Random) -> Bson {
    random.pick(&local_mongod::lookalikes::values()).clone().into()
}

pub(crate) fn value(random: &mut Random, depth: usize) -> Bson {
    match random.below(10) {
        4 if random.chance(25) => lookalike(random),
        0 | 1 if depth < 3 => array(random),
        2 | 3 if depth < 3 => {
            let mut fields = Document::new();
            for name in random.several(3, |random| *random.pick(&["x", "y", "k", "v", "a"])) {
                fields.insert(name, value(random, depth + 1));
            }
            fields.into()
        }
        _ => scalar(random),
    }
}

/// The value that the field usually has.
pub(crate) fn of_field(random: &mut Random, field: &str) -> Bson {
    match field {
        "n" | "m" => number(random),
        "s" => text(random),
        "t" => tags(random),
        "d" => inner(random).into(),
        "l" => Bson::Array(random.several(3, |random| item(random).into())),
        _ => value(random, 0),
    }
}

pub(crate) const FIELDS: [&str; 9] = ["a", "b", "n", "m", "s", "t", "d", "l", "ключ"];

/// The fields of a document, in any order, without `_id`.
pub(crate) fn fields(random: &mut Random) -> Document {
    let mut names = FIELDS;
    random.shuffle(&mut names);
    let mut fields = Document::new();
    for name in names {
        if random.chance(60) {
            let value = if random.chance(90) { of_field(random, name) } else { value(random, 0) };
            fields.insert(name, value);
        }
    }
    if random.chance(4) {
        fields.insert(*random.pick(&["x.y", "0", "", "a b"]), value(random, 1));
    }
    fields
}

/// A document with its `_id`, which need not be the first field.
pub(crate) fn document(random: &mut Random) -> Document {
    let id = id(random);
    let fields = fields(random);
    if random.chance(90) {
        let mut document = doc! {"_id": id};
        document.extend(fields);
        return document;
    }
    let mut document = fields;
    document.insert("_id", id);
    document
}
