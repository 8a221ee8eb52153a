//! The stable API that a client may keep to (`apiVersion`, `apiStrict`, `apiDeprecationErrors`), as
//! mongod 6.0 has it: the parameters of a command, and the stages and indexes outside API version
//! 1. The table of commands says which commands and fields are in it.
//!
//! `apiDeprecationErrors` refuses nothing (324): version 1 has no deprecated command, field or
//! stage in 6.0.

use std::fmt;

use bson::{Bson, Document};

use crate::{
    failure::{Answer, Failure, codes},
    fields::Fields,
};

const VERSION: &str = "apiVersion";
const STRICT: &str = "apiStrict";
const DEPRECATION_ERRORS: &str = "apiDeprecationErrors";
/// The fields of every command that are about the API.
pub(crate) const API_FIELDS: [&str; 3] = [VERSION, STRICT, DEPRECATION_ERRORS];

/// The versioned-API parameters of a command. Commands of one transaction, and of one cursor, must
/// have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiParameters {
    /// True if the command names API version 1, the only one.
    is_versioned: bool,
    strict: Option<bool>,
    deprecation_errors: Option<bool>,
}

/// Place of a command in API version 1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Api {
    /// The command is not in API version 1.
    Outside,
    /// The command is in API version 1, except for these fields.
    Stable(&'static [&'static str]),
}

/// Stages that are not in API version 1.
const UNSTABLE_STAGES: [&str; 10] = [
    "$currentOp",
    "$fill",
    "$indexStats",
    "$listCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$operationMetrics",
    "$planCacheStats",
    "$_internalInhibitOptimization",
    "$_internalSplitPipeline",
];

impl ApiParameters {
    /// Takes the parameters out of a command.
    ///
    /// # Errors
    /// 14 for values of another type, 4886600 for the others without a version, 322 for a version
    /// that is not known.
    pub(crate) fn take(body: &mut Document) -> Answer<Self> {
        let said: Document =
            API_FIELDS.iter().filter_map(|field| Some(((*field).to_owned(), body.remove(field)?))).collect();
        if said.is_empty() {
            return Ok(Self::default());
        }
        let mut said = Fields::new("APIParametersFromClient", said);
        let version = said.text(VERSION)?;
        let (strict, deprecation_errors) = (said.flag(STRICT)?, said.flag(DEPRECATION_ERRORS)?);
        match version.as_deref() {
            None if strict.is_some() || deprecation_errors.is_some() => {
                let message = "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
                Err(Failure::new(4_886_600, message))
            }
            None | Some("1") => Ok(Self { is_versioned: version.is_some(), strict, deprecation_errors }),
            Some(other) => {
                let message = format!("Cannot accept API version {other}");
                Err(Failure::new(codes::API_VERSION_ERROR, message))
            }
        }
    }

    fn is_strict(self) -> bool {
        self.strict == Some(true)
    }

    /// # Errors
    /// 323 for a command that is not in API version 1, where the client keeps to that.
    pub(crate) fn check_command(self, api: Api, name: &str) -> Answer<()> {
        if !self.is_strict() || matches!(api, Api::Stable(_)) {
            return Ok(());
        }
        let message = format!(
            "Provided apiStrict:true, but the command {name} is not in API Version 1. Information on supported commands and \
             migrations in API Version 1 can be found at https://dochub.mongodb.org/core/manual-versioned-api"
        );
        Err(Failure::new(codes::API_STRICT_ERROR, message))
    }

    /// # Errors
    /// 323 for a field that is not in API version 1, where the client keeps to that.
    pub(crate) fn check_fields(self, api: Api, name: &str, body: &Document) -> Answer<()> {
        let Api::Stable(unstable) = api else { return Ok(()) };
        let Some(field) = unstable.iter().find(|field| self.is_strict() && body.contains_key(field)) else {
            return Ok(());
        };
        let name = if name == "find" { "FindCommandRequest" } else { name };
        let message = format!("BSON field '{name}.{field}' is not allowed with apiStrict:true.");
        Err(Failure::new(codes::API_STRICT_ERROR, message))
    }

    /// # Errors
    /// 323 for a stage that is not in API version 1, at any depth, where the client keeps to that.
    pub(crate) fn check_stages(self, stages: &[Document]) -> Answer<()> {
        if !self.is_strict() {
            return Ok(());
        }
        stages.iter().flatten().try_for_each(|(name, stage)| self.check_stage(name, stage))
    }

    /// As [`ApiParameters::check_stages`], of the field that has a pipeline, if it has one.
    pub(crate) fn check_pipeline(self, pipeline: Option<&Bson>) -> Answer<()> {
        let stages = pipeline.and_then(Bson::as_array).into_iter().flatten().filter_map(Bson::as_document);
        self.check_stages(&stages.cloned().collect::<Vec<_>>())
    }

    fn check_stage(self, name: &str, stage: &Bson) -> Answer<()> {
        let refused = |message: String| Err(Failure::new(codes::API_STRICT_ERROR, message));
        if UNSTABLE_STAGES.contains(&name) {
            return refused(format!("{name} is not allowed with 'apiStrict: true' in API Version 1"));
        }
        let Bson::Document(stage) = stage else { return Ok(()) };
        if name == "$collStats" && stage.keys().any(|option| option != "count") {
            return refused("only the 'count' option to $collStats is supported in API Version 1".to_owned());
        }
        match name {
            "$facet" => stage.values().try_for_each(|pipeline| self.check_pipeline(Some(pipeline))),
            "$lookup" | "$unionWith" => self.check_pipeline(stage.get("pipeline")),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// 323 for a kind of index that is not in API version 1, where the client keeps to that.
    pub(crate) fn check_index(self, key: &Document) -> Answer<()> {
        if !self.is_strict() || key.values().all(|kind| kind.as_str() != Some("text")) {
            return Ok(());
        }
        Err(Failure::new(codes::API_STRICT_ERROR, "text indexes cannot be created with apiStrict: true"))
    }

    /// A command (`name`) that continues what another one has begun.
    ///
    /// # Errors
    /// 347 if the command that began it (`what`) had other parameters.
    pub(crate) fn check_continues(self, name: &str, what: &str, began: Self) -> Answer<()> {
        if self == began {
            return Ok(());
        }
        let message = format!("API parameter mismatch: {name} used params {self}, {what} used {began}");
        Err(Failure::new(codes::API_MISMATCH, message))
    }
}

/// Prints the parameters as the server does.
impl fmt::Display for ApiParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.is_versioned.then(|| format!("{VERSION}: \"1\""));
        let flag = |name, flag: Option<bool>| flag.map(|flag| format!("{name}: {flag}"));
        let said = [version, flag(STRICT, self.strict), flag(DEPRECATION_ERRORS, self.deprecation_errors)];
        let said: Vec<String> = said.into_iter().flatten().collect();
        if said.is_empty() { f.write_str("{}") } else { write!(f, "{{ {} }}", said.join(", ")) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    fn strict() -> ApiParameters {
        ApiParameters::take(&mut doc! {"apiVersion": "1", "apiStrict": true}).unwrap()
    }

    #[test]
    fn what_commands_say_is_checked_as_by_the_server() {
        let code = |mut said: Document| ApiParameters::take(&mut said).map_or_else(|failure| failure.code, |_| 0);
        for (said, expected) in [
            (doc! {}, 0),
            (doc! {"apiVersion": "1", "apiStrict": null}, 0),
            (doc! {"apiVersion": null}, 0),
            (doc! {"apiVersion": "2"}, 322),
            (doc! {"apiVersion": 1}, 14),
            (doc! {"apiVersion": "2", "apiStrict": 1}, 14),
            (doc! {"apiDeprecationErrors": false}, 4_886_600),
        ] {
            assert_eq!(code(said.clone()), expected, "{said}");
        }
    }

    #[test]
    fn stages_are_looked_at_at_any_depth() {
        let refused = |stage: Document| strict().check_stages(&[stage]).is_err();
        let hidden = doc! {"$indexStats": {}};
        assert!(refused(hidden.clone()));
        assert!(refused(doc! {"$facet": {"a": [], "b": [{"$lookup": {"pipeline": [hidden.clone()]}}]}}));
        assert!(refused(doc! {"$unionWith": {"coll": "c", "pipeline": [hidden]}}));
        assert!(refused(doc! {"$collStats": {"count": {}, "storageStats": {}}}));
        for stable in
            [doc! {"$collStats": {"count": {}}}, doc! {"$unionWith": "c"}, doc! {"$facet": 5}, doc! {"$out": "c"}]
        {
            assert!(!refused(stable.clone()), "{stable}");
        }
        assert!(ApiParameters::default().check_stages(&[doc! {"$fill": {}}]).is_ok());
    }
}
