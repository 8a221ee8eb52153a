//! Circles among modules that stand side by side: each pair is found from the paths that their
//! files name (`paths`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::sources::{Use, Uses};

/// Modules that all use each other, directly or through others.
#[derive(Debug)]
pub struct Circle {
    parent: String,
    /// The modules, with their uses of each other.
    uses: Uses,
}

impl fmt::Display for Circle {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.uses.keys().map(String::as_str).collect();
        let parent = if self.parent.is_empty() { "the crate" } else { &self.parent };
        writeln!(to, "in {parent}: {}", names.join(", "))?;
        for (user, all) in &self.uses {
            for (used, places) in all {
                writeln!(to, "  {user} uses {used}:")?;
                for place in places {
                    writeln!(to, "    {} names {}", place.file.display(), place.path.join("::"))?;
                }
            }
        }
        Ok(())
    }
}

/// The circles among the modules in one module.
#[must_use]
pub fn find(parent: &[String], uses: &Uses) -> Vec<Circle> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|from| (from, reached_from(from, uses))).collect();
    let mut circles: Vec<Circle> = Vec::new();
    for name in uses.keys().filter(|name| reached[*name].contains(*name)) {
        if circles.iter().any(|circle| circle.uses.contains_key(name)) {
            continue;
        }
        let is_in = |other: &String| reached[name].contains(other) && reached[other].contains(name);
        let among = |all: &BTreeMap<String, BTreeSet<Use>>| {
            all.iter().filter(|(used, _)| is_in(used)).map(|(used, places)| (used.clone(), places.clone())).collect()
        };
        let uses = uses.iter().filter(|(user, _)| is_in(user)).map(|(user, all)| (user.clone(), among(all))).collect();
        circles.push(Circle { parent: parent.join("::"), uses });
    }
    circles
}

/// All modules that one uses, directly or through others.
fn reached_from<'a>(from: &String, uses: &'a Uses) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = uses[from].keys().collect();
    while let Some(name) = next.pop() {
        if reached.insert(name) {
            next.extend(uses.get(name).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn uses(pairs: &[(&str, &str)]) -> Uses {
        let mut uses = Uses::new();
        for (user, used) in pairs {
            let place =
                Use { file: PathBuf::from(format!("{user}.rs")), path: vec![(*used).to_owned(), "It".to_owned()] };
            uses.entry((*user).to_owned()).or_default().entry((*used).to_owned()).or_default().insert(place);
            uses.entry((*used).to_owned()).or_default();
        }
        uses
    }

    #[test]
    fn each_circle_has_the_modules_that_use_each_other() {
        assert!(find(&[], &uses(&[("a", "b"), ("c", "a"), ("c", "b")])).is_empty());
        let uses = uses(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("c", "e"), ("e", "f"), ("f", "e")]);
        let circles = find(&["x".to_owned(), "y".to_owned()], &uses);
        let printed: Vec<String> = circles.iter().map(Circle::to_string).collect();
        let modules: Vec<Option<&str>> = printed.iter().map(|circle| circle.lines().next()).collect();
        assert_eq!(modules, [Some("in x::y: a, b, c"), Some("in x::y: e, f")]);
    }

    #[test]
    fn a_circle_is_reported_with_its_uses_and_their_files() {
        let circles = find(&[], &uses(&[("a", "b"), ("b", "a"), ("b", "c")]));
        assert_eq!(
            circles[0].to_string(),
            "in the crate: a, b\n  a uses b:\n    a.rs names b::It\n  b uses a:\n    b.rs names a::It\n"
        );
    }
}
