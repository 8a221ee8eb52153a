//! All targets. A new one is a folder beside this file and a line in [`TARGETS`].

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

#[cfg(feature = "dtranx")]
use super::dtranx;
pub use super::entry::{Connect, Entry};
use super::{Traits, faulty, gateway, mongotx, mvcc, native, plain, recipe};

/// All targets, in the order in which the documentation explains them.
pub static TARGETS: &[&Entry] = &[
    &plain::ENTRY,
    &native::ENTRY,
    &mongotx::CLIENT_RECORD,
    &mongotx::PUBLISHED,
    &gateway::ENTRY,
    &mvcc::ENTRY,
    &recipe::ENTRY,
    #[cfg(feature = "dtranx")]
    &dtranx::ENTRY,
];

/// Targets that are broken on purpose, for tests: found by their names, and in no list.
pub static HIDDEN: &[&Entry] = &[&faulty::LOST, &faulty::TWICE, &faulty::KEPT, &faulty::BUSY];

fn every() -> impl Iterator<Item = &'static Entry> {
    TARGETS.iter().chain(HIDDEN).copied()
}

/// The name of a target that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetName(&'static str);

impl TargetName {
    /// The entry of the target.
    pub fn entry(self) -> &'static Entry {
        // A name is only made from an entry, below.
        every().find(|entry| entry.traits.name == self.0).unwrap_or_else(|| unreachable!("no target {}", self.0))
    }

    /// Properties of the target of this name.
    pub fn traits(self) -> &'static Traits {
        &self.entry().traits
    }

    /// The name as it is written in `--targets`.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl FromStr for TargetName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        find(name, TARGETS)
    }
}

/// The target with this name among those that a program is built with, and those for tests.
fn find(name: &str, targets: &[&'static Entry]) -> Result<TargetName, String> {
    let names = || targets.iter().map(|entry| entry.traits.name);
    let hidden = HIDDEN.iter().map(|entry| entry.traits.name);
    names().chain(hidden).find(|known| *known == name).map(TargetName).ok_or_else(|| {
        let known = names().collect::<Vec<_>>().join(", ");
        match name {
            "dtranx" => format!("this program is built without the feature `dtranx`; it has the targets {known}"),
            _ => format!("no target has the name {name:?}; there are {known}"),
        }
    })
}

impl Serialize for TargetName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for TargetName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_different_and_are_found_again() {
        let names: BTreeSet<&str> = every().map(|entry| entry.traits.name).collect();
        assert_eq!(names.len(), TARGETS.len() + HIDDEN.len());
        for name in names {
            assert_eq!(name.parse::<TargetName>().map(|found| found.traits().name), Ok(name));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_exist() {
        let said = "oracle".parse::<TargetName>().expect_err("there is no such target");
        assert!(said.contains("oracle") && said.contains("plain") && !said.contains("faulty"), "{said}");
    }

    #[test]
    fn a_program_without_dtranx_says_which_feature_it_lacks() {
        let without: Vec<_> = TARGETS.iter().copied().filter(|entry| entry.traits.name != "dtranx").collect();
        let said = find("dtranx", &without).expect_err("it is not built with it");
        assert!(said.contains("without the feature `dtranx`") && said.contains("plain, native"), "{said}");
        assert!(find("dtranx", TARGETS).is_ok(), "tests have every target");
    }
}
