//! `mapReduce`: carried out as the pipeline that the server itself makes of it, so that it reads,
//! and writes, what any pipeline does.
//!
//! The server's own plan for a `mapReduce` (by `explain`, of 4.4 and later) shows that pipeline:
//! the functions `map` and `reduce` stand in two operators that the server has for it. What it
//! cannot say are values in `scope`: these are declared in each function.

use bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, doc, raw::cstr};

use super::parts::{
    body::Body,
    call::{Call, with_options, within},
    lists::describe,
    scripts::{Scope, source},
};
use crate::{
    failure::{Answer, Failure, codes},
    fields::{Fields, as_number},
};

/// Location15958: a limit that is not positive.
const BAD_LIMIT: i32 = 15_958;
/// Location17385: a target that belongs to the server.
const SPECIAL_TARGET: i32 = 17_385;
/// The most bytes of results in one reply.
const MAX_RESULTS: usize = 16 * 1024 * 1024;
/// Prefixes that the server puts before the reason why a pipeline, or a `mapReduce`, has failed.
const PIPELINE_FAILED: &str = "PlanExecutor error during aggregation :: caused by :: ";
const FAILED: &str = "MapReduce internal error :: caused by :: ";

/// Arguments of a `mapReduce`, without the collection.
pub(super) struct MapReduce {
    map: String,
    reduce: String,
    finalize: Option<String>,
    filter: Option<Document>,
    sort: Option<Document>,
    limit: Option<i64>,
    collation: Option<Document>,
    out: ResultsTarget,
}

/// The place to which `mapReduce` writes its results.
enum ResultsTarget {
    /// The reply of the command holds the results.
    Inline,
    /// The results are written to a collection of this name.
    Into { how: MergeMode, db: Option<String>, collection: String },
}

/// Treatment of the documents that the target collection has already.
#[derive(Clone, Copy)]
enum MergeMode {
    /// All documents of the collection are removed first.
    Replace,
    /// Documents with the key of a new result are replaced by it.
    Merge,
    /// Documents with the key of a new result are reduced together with it.
    Reduce,
}

impl MapReduce {
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let (map, reduce, out) = (fields.any("map"), fields.any("reduce"), fields.any("out"));
        let scope = Scope::parse(&fields.document("scope")?.unwrap_or_default())?;
        let function = |field, value| source(field, value).map(|function| scope.around(&function));
        let parsed = Self {
            map: function("map", fields.required("map", map)?)?,
            reduce: function("reduce", fields.required("reduce", reduce)?)?,
            finalize: fields.any("finalize").map(|finalize| function("finalize", finalize)).transpose()?,
            filter: fields.filled("query")?,
            sort: fields.document("sort")?,
            limit: fields.number("limit")?,
            collation: fields.filled("collation")?,
            out: ResultsTarget::parse(fields.required("out", out)?)?,
        };
        // The server heeds neither of the two any more; the third is heeded before the handler
        // runs.
        for flag in ["verbose", "jsMode", "bypassDocumentValidation"] {
            fields.safe_flag(flag)?;
        }
        fields.finish()?;
        if parsed.limit.is_some_and(|limit| limit <= 0) {
            return Err(Failure::new(BAD_LIMIT, "The limit specified to mapReduce must be positive"));
        }
        Ok(parsed)
    }

    /// The stages that make the results, and the one that writes them.
    fn into_pipeline(self, db: &str) -> Vec<Document> {
        let Self { map, reduce, finalize, filter, sort, limit, out, .. } = self;
        let emit = doc! {"$_internalJsEmit": {"this": "$$ROOT", "eval": map}};
        let reduced = doc! {"$_internalJsReduce": {"data": "$emits", "eval": &reduce}};
        let mut stages = vec![doc! {"$match": filter.unwrap_or_default()}];
        stages.extend(sort.map(|sort| doc! {"$sort": sort}));
        stages.extend(limit.map(|limit| doc! {"$limit": limit}));
        stages.extend([
            doc! {"$project": {"emits": emit, "_id": false}},
            doc! {"$unwind": "$emits"},
            doc! {"$group": {"_id": "$emits.k", "value": reduced}},
        ]);
        let finalize = finalize.map(|body| finalize_stage(&body));
        stages.extend(finalize.clone());
        stages.extend(out.stage(db, &reduce, finalize));
        stages
    }
}

/// Replaces each result's value by what a function makes of key and value.
fn finalize_stage(body: &str) -> Document {
    doc! {"$project": {"value": {"$function": {"body": body, "args": ["$_id", "$value"], "lang": "js"}}}}
}

impl ResultsTarget {
    fn parse(out: Bson) -> Answer<Self> {
        let refused = |code, message: &str| Err(Failure::new(code, message));
        let mut out = match out {
            Bson::String(collection) => return Ok(Self::Into { how: MergeMode::Replace, db: None, collection }),
            Bson::Document(out) => out,
            _ => return refused(codes::BAD_VALUE, "'out' must be either a string or an object"),
        };
        if let Some(inline) = out.remove("inline") {
            return match as_number(&inline) {
                _ if !out.is_empty() => refused(codes::INVALID_OPTIONS, "'inline' must be specified alone"),
                Some(1) => Ok(Self::Inline),
                _ => refused(codes::BAD_VALUE, "'inline' takes only numeric '1'"),
            };
        }
        let hows = [("replace", MergeMode::Replace), ("merge", MergeMode::Merge), ("reduce", MergeMode::Reduce)];
        let named = hows.into_iter().find_map(|(name, how)| Some((how, out.remove(name)?)));
        let Some((how, Bson::String(collection))) = named else {
            return refused(codes::BAD_VALUE, "'out' requires 'replace', 'merge' or 'reduce'");
        };
        let db = match out.remove("db") {
            None => None,
            Some(Bson::String(db)) => Some(db),
            Some(_) => return refused(codes::BAD_VALUE, "db field value must be string"),
        };
        let is_off = |flag: Bson| matches!(flag, Bson::Boolean(false));
        if out.remove("nonAtomic").is_some_and(is_off) {
            return refused(codes::BAD_VALUE, "nonAtomic field value must be true");
        }
        out.remove("sharded");
        match out.keys().next() {
            None => Ok(Self::Into { how, db, collection }),
            Some(field) => refused(codes::BAD_VALUE, &format!("'out' has an unknown field '{field}'")),
        }
    }

    /// # Errors
    /// 73 and 17385, as the server, and what [`Call::namespace`] refuses, for a collection that no
    /// results may go to.
    fn check(&self, call: &Call<'_>) -> Answer<()> {
        let Self::Into { db, collection, .. } = self else { return Ok(()) };
        let db = db.as_deref().unwrap_or(call.db);
        if collection.is_empty() {
            let message = format!("Invalid output namespace {db}. for MapReduce");
            return Err(Failure::new(codes::INVALID_NAMESPACE, message));
        }
        if collection.starts_with("system.") {
            let message = format!("Can't output mapReduce results to special collection {collection}");
            return Err(Failure::new(SPECIAL_TARGET, message));
        }
        super::parts::call::namespace_of(call.context, db, collection).map(drop)
    }

    /// The reply's field that names the collection.
    fn result(&self) -> Option<Bson> {
        match self {
            Self::Inline => None,
            Self::Into { db: None, collection, .. } => Some(collection.as_str().into()),
            Self::Into { db: Some(db), collection, .. } => Some(doc! {"db": db, "collection": collection}.into()),
        }
    }

    /// The stage that writes the results.
    fn stage(self, db: &str, reduce: &str, finalize: Option<Document>) -> Option<Document> {
        let Self::Into { how, db: other, collection } = self else { return None };
        let into = doc! {"db": other.as_deref().unwrap_or(db), "coll": collection};
        let (matched, variables): (Bson, Document) = match how {
            MergeMode::Replace => return Some(doc! {"$out": into}),
            MergeMode::Merge => ("replace".into(), doc! {}),
            MergeMode::Reduce => {
                let values = Bson::Array(vec!["$value".into(), "$$new.value".into()]);
                let both = doc! {"body": reduce, "args": ["$_id", values], "lang": "js"};
                let reduced = doc! {"$project": {"value": {"$function": both}}};
                let stages = [reduced].into_iter().chain(finalize).map(Bson::Document).collect();
                (Bson::Array(stages), doc! {"new": "$$ROOT"})
            }
        };
        let mut merge = doc! {"into": into, "on": "_id", "whenMatched": matched, "whenNotMatched": "insert"};
        if !variables.is_empty() {
            merge.insert("let", variables);
        }
        Some(doc! {"$merge": merge})
    }
}

pub(super) async fn answer_map_reduce(call: &mut Call<'_>) -> Answer<Body> {
    let namespace = call.namespace()?;
    let asked = MapReduce::parse(call.fields("mapReduce"))?;
    asked.out.check(call)?;
    if matches!(asked.out, ResultsTarget::Inline) && call.generic.write.is_some() {
        return Err(Failure::new(codes::INVALID_OPTIONS, "Command does not support writeConcern"));
    }
    if describe(call, &namespace).await?.is_some_and(|info| info.get_str("type").is_ok_and(|kind| kind != "collection"))
    {
        return Err(Failure::new(codes::NOT_ON_A_VIEW, "mapReduce on a view is not supported"));
    }
    let collection = call.collection::<Document>(&namespace);
    let (collation, result) = (asked.collation.clone(), asked.out.result());
    let action = with_options!(collection.aggregate(asked.into_pipeline(call.db)), collation: collation);
    let results = within!(call, action.with_type::<RawDocumentBuf>()).await;
    let mut results = results.map_err(|error| in_its_words(error.into()))?;
    if let Some(result) = result {
        return Body::of(&doc! {"result": result});
    }
    let (mut gathered, mut bytes) = (RawArrayBuf::new(), 0);
    while let Some(one) = results.next().await.map_err(|error| in_its_words(error.into()))? {
        bytes += one.as_bytes().len();
        if bytes > MAX_RESULTS {
            let message = format!(
                "{FAILED}the results take more than {MAX_RESULTS} bytes, the limit of one reply: name a collection for them in 'out'"
            );
            return Err(Failure::new(codes::OBJECT_TOO_LARGE, message));
        }
        gathered.push(one);
    }
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("results"), gathered);
    Ok(reply.into())
}

/// Gives a failed `mapReduce` the wording that the server uses for it.
fn in_its_words(mut failure: Failure) -> Failure {
    if let Some(reason) = failure.message.strip_prefix(PIPELINE_FAILED) {
        failure.message = format!("{FAILED}{reason}");
    }
    failure
}
