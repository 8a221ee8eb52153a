//! Pipelines of every stage whose answer does not depend on chance, on the collections `c` and `d`
//! and some views.
//!
//! Where an answer could depend on the order of documents, they are sorted by a unique key before.

use bson::{Bson, Document, doc};

use super::{expressions, filters, values};
use crate::random::Random;

pub(crate) const COLLECTIONS: [&str; 2] = ["c", "d"];

/// Views, what they are on, and their pipelines. One only filters.
pub(crate) fn views() -> [(&'static str, &'static str, Vec<Document>); 3] {
    let more = vec![doc! {"$set": {"w": "$m"}}, doc! {"$unset": "b"}];
    [
        ("filtered", "c", vec![doc! {"$match": {"n": {"$gt": 0}}}]),
        ("changed", "filtered", more),
        ("joined", "d", vec![doc! {"$lookup": {"from": "filtered", "pipeline": [{"$count": "n"}], "as": "x"}}]),
    ]
}

/// A collection to read, or sometimes a view.
pub(crate) fn source(random: &mut Random) -> &'static str {
    if random.chance(10) { random.pick(&views()).0 } else { random.pick::<&'static str>(&COLLECTIONS) }
}

/// A pipeline in the making.
struct Draft<'a> {
    random: &'a mut Random,
    stages: Vec<Document>,
    /// True if each document has another `_id`.
    unique: bool,
    depth: usize,
    /// True when no further stage may follow.
    complete: bool,
}

/// A pipeline of some stages, for a collection.
pub(crate) fn pipeline(random: &mut Random) -> Vec<Document> {
    draft(random, 0, 4)
}

fn draft(random: &mut Random, depth: usize, most: usize) -> Vec<Document> {
    let mut draft = Draft { random, stages: Vec::new(), unique: true, depth, complete: false };
    draft.begin();
    for _ in 0..draft.random.below(most + 1) {
        draft.add_stage();
    }
    draft.stages
}

/// A pipeline without a collection of its own.
pub(crate) fn on_documents(random: &mut Random) -> Vec<Document> {
    let mut draft = Draft { random, stages: Vec::new(), unique: false, depth: 0, complete: false };
    let made = draft.documents();
    draft.stages.push(made);
    for _ in 0..1 + draft.random.below(3) {
        draft.add_stage();
    }
    draft.stages
}

impl Draft<'_> {
    fn begin(&mut self) {
        if self.random.chance(60) {
            let filter = filters::filter(self.random);
            self.stages.push(doc! {"$match": filter});
        }
        if self.random.chance(15) {
            let filter = filters::filter(self.random);
            self.stages.push(doc! {"$match": filter});
        }
        if self.random.chance(30) {
            self.top();
        }
    }

    /// The first documents in an order that is total.
    fn top(&mut self) {
        let mut sort = Document::new();
        for field in self.random.several(1, |random| *random.pick(&["n", "s", "a", "d.x"])) {
            sort.insert(field, *self.random.pick(&[1, -1]));
        }
        sort.insert("_id", *self.random.pick(&[1, -1]));
        self.stages.push(doc! {"$sort": sort});
        if !self.unique {
            return;
        }
        if self.random.chance(40) {
            self.stages.push(doc! {"$skip": self.random.below(4) as i32});
        }
        if self.random.chance(60) {
            self.stages.push(doc! {"$limit": 1 + self.random.below(6) as i32});
        }
    }

    fn sort_by_id(&mut self) {
        if self.unique {
            self.stages.push(doc! {"$sort": {"_id": 1}});
        }
    }

    fn add_stage(&mut self) {
        if self.complete {
            return;
        }
        let inner = if self.depth < 2 { 6 } else { 0 };
        match self.random.below(18 + inner) {
            0 => {
                let filter = filters::filter(self.random);
                self.stages.push(doc! {"$match": filter});
            }
            1 => self.top(),
            2 => self.project(),
            3 | 4 => {
                let name = *self.random.pick(&["$set", "$addFields"]);
                let fields = expressions::fields(self.random);
                self.stages.push(doc! {name: fields});
            }
            5 => {
                let fields = self.random.pick(&[Bson::from("a"), "d.x".into(), vec!["n", "l.k"].into()]).clone();
                self.stages.push(doc! {"$unset": fields});
            }
            6..=8 => self.group(),
            9 => self.buckets(),
            10 => self.counted(),
            11 => self.unwind(),
            12 => self.new_root(),
            13 => self.redact(),
            14 => self.window(),
            15 => self.filled(),
            16 => self.densify(),
            17 => self.risk(),
            18..=20 => self.lookup(),
            21 => self.graph_lookup(),
            22 => self.union_with(),
            _ => self.facet(),
        }
    }

    fn project(&mut self) {
        let projection = match self.random.below(4) {
            0 => doc! {"n": 1, "d.x": 1, "t": 1},
            1 => doc! {"a": 0, "d": {"x": 0}},
            2 => doc! {"_id": 0, "n": 1},
            _ => {
                let mut fields = expressions::fields(self.random);
                fields.insert("s", 1);
                fields
            }
        };
        self.unique &= !projection.contains_key("_id");
        self.stages.push(doc! {"$project": projection});
    }

    fn group(&mut self) {
        let key = match self.random.below(4) {
            0 => Bson::Null,
            1 => expressions::path(self.random),
            2 => expressions::number(self.random),
            _ => doc! {"k": expressions::number(self.random), "b": expressions::condition(self.random)}.into(),
        };
        let mut group = doc! {"_id": key, "count": {"$sum": 1}};
        let ordered = self.unique && self.random.chance(50);
        if ordered {
            self.sort_by_id();
        }
        for at in 0..self.random.below(3) {
            let accumulator = self.accumulator(ordered);
            group.insert(format!("g{at}"), accumulator);
        }
        self.stages.push(doc! {"$group": group});
        self.unique = true;
    }

    fn accumulator(&mut self, ordered: bool) -> Document {
        let random = &mut *self.random;
        let value = if random.chance(20) { "$$ROOT".into() } else { expressions::any(random) };
        match random.below(if ordered { 14 } else { 7 }) {
            0 => doc! {"$sum": expressions::number(random)},
            1 => doc! {"$max": expressions::path(random)},
            2 => doc! {"$min": expressions::path(random)},
            3 => doc! {"$addToSet": expressions::number(random)},
            4 => doc! {"$avg": expressions::number(random)},
            5 => doc! {"$count": {}},
            6 => doc! {"$maxN": {"input": expressions::number(random), "n": 2}},
            // The result is rounded on its way, and the way is an order.
            7 => doc! {"$stdDevPop": expressions::number(random)},
            8 => doc! {"$first": value},
            9 => doc! {"$last": value},
            10 => doc! {"$firstN": {"input": value, "n": 2}},
            11 => doc! {"$top": {"sortBy": {"_id": -1}, "output": value}},
            12 => doc! {"$bottomN": {"n": 2, "sortBy": {"_id": 1}, "output": expressions::path(random)}},
            _ => doc! {"$push": value},
        }
    }

    fn buckets(&mut self) {
        let by = expressions::number(self.random);
        let output = doc! {"count": {"$sum": 1}, "most": {"$max": expressions::number(self.random)}};
        self.stages.push(match self.random.below(2) {
            0 => doc! {"$bucket": {"groupBy": by, "boundaries": [-10, 0, 2, 5], "default": "other", "output": output}},
            _ => doc! {"$bucketAuto": {"groupBy": by, "buckets": 2, "output": output}},
        });
        self.unique = true;
    }

    fn counted(&mut self) {
        let by = expressions::number(self.random);
        match self.random.below(3) {
            0 => self.stages.push(doc! {"$count": "n"}),
            1 => {
                self.stages.push(doc! {"$sample": {"size": 1 + self.random.below(20) as i32}});
                self.stages.push(doc! {"$count": "n"});
            }
            _ => self.stages.push(doc! {"$sortByCount": by}),
        }
        self.unique = false;
    }

    fn unwind(&mut self) {
        let path = *self.random.pick(&["$t", "$l", "$d.t"]);
        let mut unwind = doc! {"path": path, "preserveNullAndEmptyArrays": self.random.chance(50)};
        if self.random.chance(30) {
            unwind.insert("includeArrayIndex", "at");
        }
        self.stages.push(if self.random.chance(40) {
            doc! {"$unwind": path}
        } else {
            doc! {"$unwind": unwind}
        });
        self.unique = false;
    }

    fn new_root(&mut self) {
        let root = match self.random.below(3) {
            0 => doc! {"$mergeObjects": ["$$ROOT", {"x": expressions::any(self.random)}]},
            1 => doc! {"_id": "$_id", "all": "$$CURRENT"},
            _ => doc! {"$cond": [{"$eq": [{"$type": "$d"}, "object"]}, "$d", {"n": "$n"}]},
        };
        self.stages.push(if self.random.chance(50) {
            doc! {"$replaceWith": root}
        } else {
            doc! {"$replaceRoot": {"newRoot": root}}
        });
        self.unique = false;
    }

    fn redact(&mut self) {
        let condition = expressions::condition(self.random);
        let then = *self.random.pick(&["$$KEEP", "$$DESCEND"]);
        self.stages.push(doc! {"$redact": {"$cond": [condition, then, *self.random.pick(&["$$PRUNE", "$$DESCEND"])]}});
        // An expression may fail on a part of a document.
        self.unique = false;
    }

    fn window(&mut self) {
        if !self.unique {
            return;
        }
        let number = expressions::number(self.random);
        let output = match self.random.below(4) {
            0 => doc! {"w": {"$sum": number, "window": {"documents": [-1, 1]}}},
            1 => doc! {"w": {"$documentNumber": {}}},
            2 => doc! {"w": {"$shift": {"output": "$n", "by": -1}}},
            // As a whole a document would show the server's own name for what it is partitioned by.
            _ => doc! {"w": {"$push": "$m", "window": {"documents": ["unbounded", "current"]}}},
        };
        self.stages
            .push(doc! {"$setWindowFields": {"partitionBy": number_type(), "sortBy": {"_id": 1}, "output": output}});
    }

    fn filled(&mut self) {
        if !self.unique {
            return;
        }
        let output = match self.random.below(2) {
            0 => doc! {"n": {"method": "locf"}, "none": {"value": expressions::number(self.random)}},
            _ => doc! {"a": {"method": "locf"}},
        };
        self.stages.push(doc! {"$fill": {"sortBy": {"_id": 1}, "output": output}});
    }

    fn densify(&mut self) {
        self.stages.push(doc! {"$match": {"n": {"$type": "int", "$lt": 100}}});
        self.stages.push(doc! {"$densify": {"field": "n", "range": {"step": 1, "bounds": [-1, 4]}}});
        self.unique = false;
    }

    /// In a filter the server would decide which condition is evaluated first, and before other
    /// stages whether the part that fails is needed at all.
    fn risk(&mut self) {
        if self.depth > 0 {
            return;
        }
        self.complete = true;
        let risky = expressions::risky(self.random);
        self.stages.push(doc! {"$set": {"x": risky}});
    }

    fn from(&mut self) -> &'static str {
        source(self.random)
    }

    /// The documents found are sorted: no server promises their order.
    fn lookup(&mut self) {
        let mut lookup = doc! {"from": self.from()};
        let kind = self.random.below(4);
        if kind != 0 {
            let fields = ["_id", "n", "m", "t", "d.x", "l.k", "s", "a"];
            lookup.insert("localField", *self.random.pick(&fields));
            lookup.insert("foreignField", *self.random.pick(&fields));
        }
        if kind == 0 && self.random.chance(10) {
            lookup = doc! {"pipeline": [self.documents()]};
        } else if kind != 1 {
            let mut inner = draft(self.random, self.depth + 1, 2);
            if self.random.chance(40) {
                lookup.insert("let", doc! {"v": expressions::number(self.random)});
                inner.insert(0, doc! {"$match": {"$expr": {"$gte": [expressions::number(self.random), "$$v"]}}});
            }
            lookup.insert("pipeline", inner);
        }
        let found = *self.random.pick(&["x", "d.found", "t"]);
        lookup.insert("as", found);
        self.stages.push(doc! {"$lookup": lookup});
    }

    fn graph_lookup(&mut self) {
        let (from, to) = *self.random.pick(&[("t", "n"), ("n", "m"), ("d.x", "_id"), ("l.k", "n")]);
        let mut search = doc! {"from": self.from(), "startWith": format!("${from}"), "connectFromField": from, "connectToField": to, "as": "x"};
        if self.random.chance(50) {
            search.insert("maxDepth", self.random.below(3) as i32);
        }
        if self.random.chance(40) {
            search.insert("restrictSearchWithMatch", doc! {"n": {"$gte": self.random.between(-1, 2)}});
        }
        self.stages.push(doc! {"$graphLookup": search});
    }

    fn union_with(&mut self) {
        let other = self.from();
        let stage = match self.random.below(5) {
            0 => Bson::from(other),
            1 => doc! {"coll": other}.into(),
            2 => doc! {"pipeline": [self.documents()]}.into(),
            _ => doc! {"coll": other, "pipeline": draft(self.random, self.depth + 1, 2)}.into(),
        };
        self.stages.push(doc! {"$unionWith": stage});
        self.unique = false;
    }

    fn documents(&mut self) -> Document {
        let documents: Vec<Document> =
            (0..3).map(|at| doc! {"_id": at, "n": at, "t": values::tags(self.random), "x": {"$literal": values::scalar(self.random)}}).collect();
        doc! {"$documents": documents}
    }

    fn facet(&mut self) {
        let mut facets = Document::new();
        for name in ["f", "g"] {
            let (unique, depth) = (self.unique, 2);
            let mut inner = Draft { random: self.random, stages: Vec::new(), unique, depth, complete: false };
            for _ in 0..inner.random.below(3) {
                inner.add_stage();
            }
            facets.insert(name, inner.stages);
        }
        self.stages.push(doc! {"$facet": facets});
        self.unique = false;
    }
}

fn number_type() -> Document {
    doc! {"$isNumber": "$n"}
}
