//! The modules of the gateway use each other in one direction: no two that stand side by side, in
//! the crate or in one of its folders, need each other, over others or by themselves. (What tests
//! use does not count.)

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A module, by the names on the way to it.
type Module = Vec<String>;

/// All modules, and the paths that each one names.
struct Sources {
    named: BTreeMap<Module, Vec<Module>>,
}

impl Sources {
    fn read() -> Self {
        let mut sources = Self { named: BTreeMap::new() };
        sources.add(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &Module::new());
        sources
    }

    fn add(&mut self, folder: &Path, module: &Module) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let inner: Module = module.iter().cloned().chain([name.clone()]).collect();
            if path.is_dir() {
                self.add(&path, &inner);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let module = if ["lib", "mod"].contains(&name.as_str()) { module.clone() } else { inner };
                let text = std::fs::read_to_string(&path).unwrap();
                self.named.entry(module.clone()).or_default().extend(named_in(&text, &module));
            }
        }
    }

    /// Of the modules directly in this one: which use which.
    fn uses_in(&self, parent: &Module) -> BTreeMap<&str, BTreeSet<&str>> {
        let child = |path: &'_ Module| path.starts_with(parent).then(|| path.get(parent.len())).flatten().cloned();
        let children: BTreeSet<&str> = self
            .named
            .keys()
            .filter(|module| child(module).is_some())
            .map(|module| module[parent.len()].as_str())
            .collect();
        let mut uses: BTreeMap<&str, BTreeSet<&str>> = children.iter().map(|name| (*name, BTreeSet::new())).collect();
        for (module, paths) in &self.named {
            let Some(user) = child(module) else { continue };
            for used in paths.iter().filter_map(child).filter(|used| *used != user) {
                if let (Some(used), Some(all)) = (children.get(used.as_str()), uses.get_mut(user.as_str())) {
                    all.insert(used);
                }
            }
        }
        uses
    }
}

/// The paths of this crate that a file names, from the crate's root on.
fn named_in(text: &str, module: &Module) -> Vec<Module> {
    let code =
        text.split("#[cfg(test)]\n").filter(|part| !part.starts_with("#[allow") && !part.starts_with("mod tests"));
    let code: Vec<&str> = code.flat_map(str::lines).map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut named = Vec::new();
    for root in ["crate", "super", "self"] {
        for (place, _) in code.match_indices(&format!("{root}::")) {
            let is_path_before = |before: char| before.is_alphanumeric() || ['_', ':', '$'].contains(&before);
            if code[..place].chars().next_back().is_none_or(|before| !is_path_before(before)) {
                let mut leaves = Vec::new();
                read_tree(&code[place..], Module::new(), &mut leaves);
                named.extend(leaves.into_iter().filter_map(|leaf| from_root(leaf, module)));
            }
        }
    }
    named
}

/// Reads one path, or several with a common beginning (`a::{b, c::d}`), and answers what comes
/// after them.
fn read_tree<'a>(text: &'a str, mut path: Module, leaves: &mut Vec<Module>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = read_tree(rest, path.clone(), leaves).trim_start();
            match rest.strip_prefix(',') {
                Some(next) if next.trim_start().starts_with('}') => rest = next.trim_start(),
                Some(next) => {
                    rest = next;
                    continue;
                }
                None => {}
            }
            return rest.strip_prefix('}').unwrap_or(rest);
        }
    }
    let end = text.find(|one: char| !one.is_alphanumeric() && one != '_' && one != '*').unwrap_or(text.len());
    path.push(text[..end].to_owned());
    match text[end..].strip_prefix("::").filter(|rest| !rest.starts_with('<')) {
        Some(rest) => read_tree(rest, path, leaves),
        None => {
            leaves.push(path);
            &text[end..]
        }
    }
}

/// A path that is named in a module. `None`: there is nothing at its beginning.
fn from_root(path: Module, module: &Module) -> Option<Module> {
    let mut base = if path.first()? == "crate" { Module::new() } else { module.clone() };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(base.pop()?),
            _ => base.push(name),
        }
    }
    Some(base)
}

/// The modules that are left after all were taken away, again and again, that use none of the rest.
fn in_circles<'a>(mut uses: BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    loop {
        let done: BTreeSet<&str> = uses.iter().filter(|(_, used)| used.is_empty()).map(|(name, _)| *name).collect();
        if done.is_empty() {
            return uses;
        }
        uses.retain(|name, _| !done.contains(name));
        uses.values_mut().for_each(|used| used.retain(|name| !done.contains(name)));
    }
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let sources = Sources::read();
    let mut parents: BTreeSet<Module> = BTreeSet::from([Module::new()]);
    for module in sources.named.keys() {
        parents.extend((1..module.len()).map(|length| module[..length].to_vec()));
    }
    for parent in parents {
        let circles = in_circles(sources.uses_in(&parent));
        assert!(circles.is_empty(), "in {}: {circles:#?}", parent.join("::"));
    }
}

#[test]
fn what_a_file_uses_is_found_whatever_form_it_has() {
    let text = "use super::{a::A, b::{self, B as C}};\nuse crate::{c, d::{e::*, F},};\nfn f() { crate::g::h::<u8>(self::i) } // crate::no\n\
                #[cfg(test)]\nmod tests { use crate::no; }";
    let module = ["x", "y"].map(str::to_owned).to_vec();
    let mut named: Vec<String> = named_in(text, &module).iter().map(|path| path.join("::")).collect();
    named.sort_unstable();
    assert_eq!(named, ["c", "d::F", "d::e::*", "g::h", "x::a::A", "x::b", "x::b::B", "x::y::i"]);
    let uses = |pairs: &[(&'static str, &'static str)]| {
        let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::from([("a", BTreeSet::new()), ("b", BTreeSet::new())]);
        for (user, used) in pairs {
            uses.entry(user).or_default().insert(used);
        }
        uses
    };
    assert!(in_circles(uses(&[("a", "b"), ("c", "a"), ("c", "b")])).is_empty());
    assert_eq!(in_circles(uses(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")])).len(), 4);
}
