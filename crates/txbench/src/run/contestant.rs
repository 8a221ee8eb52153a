//! Contestants, which take turns: each is a target at one isolation level, checked before anything
//! is started.

use super::RunArgs;
use crate::{
    error::BenchError,
    targets::{Isolation, Traits, registry::TargetName},
};

/// A target at one isolation level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contestant {
    pub(crate) target: TargetName,
    pub(crate) isolation: Isolation,
    /// Name in results: with its level where one run has several.
    pub(crate) name: String,
}

impl Contestant {
    /// All contestants of a run, in their order.
    ///
    /// # Errors
    /// [`BenchError::Refused`] for a target that has none of the levels.
    pub(crate) fn all(args: &RunArgs) -> Result<Vec<Self>, BenchError> {
        let mut all = Vec::new();
        for target in &args.targets {
            for isolation in levels(target.traits(), &args.isolation)? {
                let name = match args.isolation.len() {
                    2.. if !target.traits().isolations.is_empty() => format!("{}, {isolation}", target.as_str()),
                    _ => target.as_str().to_owned(),
                };
                let contestant = Self { target: *target, isolation, name };
                if !all.contains(&contestant) {
                    all.push(contestant);
                }
            }
        }
        Ok(all)
    }
}

/// The requested levels that a target has.
fn levels(traits: &Traits, asked: &[Isolation]) -> Result<Vec<Isolation>, BenchError> {
    if traits.isolations.is_empty() {
        // The target isolates nothing, whatever levels the options name.
        return Ok(asked.iter().take(1).copied().collect());
    }
    let possible: Vec<Isolation> = asked.iter().filter(|level| traits.isolations.contains(level)).copied().collect();
    if possible.is_empty() {
        asked.iter().try_for_each(|level| traits.check_isolation(*level))?;
    }
    Ok(possible)
}
