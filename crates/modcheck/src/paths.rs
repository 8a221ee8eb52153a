//! The paths of its crate that a file names, read from its text: `use` items and paths in the code.
//! Macros are not expanded.

/// A module, or an item in one, by the names on the way to it from the crate's root.
pub type ModulePath = Vec<String>;

/// Declarations and uses of one file.
#[derive(Debug, Default)]
pub struct Text {
    /// All that is compiled without tests, without comments.
    code: String,
    /// Modules in other files that it declares for tests only.
    pub test_modules: Vec<String>,
}

/// A name that a module imports, and from where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Import {
    /// The name, as the module has it.
    pub name: String,
    /// Path as it is written.
    pub path: ModulePath,
}

/// The end of a path, and the other name that an import gives it.
struct Leaf {
    path: ModulePath,
    alias: Option<String>,
}

impl Text {
    /// Reads a file without comments and without code that is for tests only.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut parts = text.split("#[cfg(test)]\n");
        let mut read = Self { code: without_comments(parts.next().unwrap_or_default()), ..Self::default() };
        for part in parts {
            let item = after_attributes(part);
            let rest = match item.strip_prefix("mod ").and_then(|module| module.split_once([';', ' '])) {
                // A module of tests stands at the end of its file.
                Some((_, rest)) if rest.starts_with('{') => break,
                Some((name, rest)) => {
                    read.test_modules.push(name.to_owned());
                    rest
                }
                None => part,
            };
            read.code.push_str(&without_comments(rest));
        }
        read
    }

    /// Paths of this crate that the file of a module names, from the crate's root on.
    #[must_use]
    pub fn named(&self, module: &[String]) -> Vec<ModulePath> {
        let mut named = Vec::new();
        for root in ["crate", "super", "self"] {
            for (place, _) in self.code.match_indices(&format!("{root}::")) {
                if !self.code[..place].chars().next_back().is_some_and(continues_a_path) {
                    named.extend(leaves(&self.code[place..]).filter_map(|leaf| from_root(&leaf.path, module)));
                }
            }
        }
        named
    }

    /// Names that the module imports for all of its file, and that its children can take from it.
    #[must_use]
    pub fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        let starts = ["\nuse ", "\npub use ", "\npub(crate) use ", "\npub(super) use "];
        let code = format!("\n{}", self.code);
        for (place, start) in starts.iter().flat_map(|start| code.match_indices(start)) {
            for leaf in leaves(&code[place + start.len()..]) {
                let own = leaf.path.iter().rfind(|name| *name != "self").cloned().unwrap_or_default();
                imports.push(Import { name: leaf.alias.unwrap_or(own), path: leaf.path });
            }
        }
        imports
    }
}

/// Makes a path that a module names begin at the crate's root. `None`: there is nothing at its
/// beginning.
#[must_use]
pub fn from_root(path: &[String], module: &[String]) -> Option<ModulePath> {
    let mut base = if path.first()? == "crate" { ModulePath::new() } else { module.to_vec() };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(base.pop()?),
            _ => base.push(name.clone()),
        }
    }
    Some(base)
}

fn without_comments(text: &str) -> String {
    text.lines().flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect()
}

fn after_attributes(mut text: &str) -> &str {
    while text.starts_with("#[") {
        text = text.split_once('\n').map_or("", |(_, rest)| rest);
    }
    text
}

fn continues_a_path(before: char) -> bool {
    before.is_alphanumeric() || ['_', ':', '$'].contains(&before)
}

/// One path, or several with a common beginning (`a::{b, c::d}`), at the beginning of a text.
fn leaves(text: &str) -> impl Iterator<Item = Leaf> {
    let mut leaves = Vec::new();
    read_tree(text, ModulePath::new(), &mut leaves);
    leaves.into_iter()
}

/// Reads the tree of paths that [`leaves`] returns, and returns the text after it.
fn read_tree<'a>(text: &'a str, mut path: ModulePath, leaves: &mut Vec<Leaf>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(rest) = rest.strip_prefix('}') {
                return rest;
            }
            rest = read_tree(rest, path.clone(), leaves).trim_start();
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let (name, rest) = read_name(text);
    path.push(name.to_owned());
    if let Some(rest) = rest.strip_prefix("::").filter(|rest| !rest.starts_with('<')) {
        return read_tree(rest, path, leaves);
    }
    let (alias, rest) = match rest.strip_prefix(" as ") {
        Some(rest) => {
            let (alias, rest) = read_name(rest);
            (Some(alias.to_owned()), rest)
        }
        None => (None, rest),
    };
    leaves.push(Leaf { path, alias });
    rest
}

fn read_name(text: &str) -> (&str, &str) {
    let is_part = |one: char| one.is_alphanumeric() || ['_', '*', '#'].contains(&one);
    text.split_at(text.find(|one: char| !is_part(one)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ModulePath {
        text.split("::").map(str::to_owned).collect()
    }

    #[test]
    fn what_a_file_names_is_found_whatever_form_it_has() {
        let text = "use super::{a::A, b::{self, B as C}};\nuse crate::{c, d::{e::*, F},};\n\
                    fn f() { crate::g::h::<u8>(self::i) } // crate::no\n#[cfg(test)]\n#[allow(a)]\nmod no;\n\
                    fn g() { crate::j() }\n#[cfg(test)]\nmod tests { use crate::no; }";
        let text = Text::read(text);
        let mut named: Vec<String> = text.named(&path("x::y")).iter().map(|path| path.join("::")).collect();
        named.sort_unstable();
        assert_eq!(named, ["c", "d::F", "d::e::*", "g::h", "j", "x::a::A", "x::b", "x::b::B", "x::y::i"]);
        assert_eq!(text.test_modules, ["no"]);
    }

    #[test]
    fn an_import_has_the_name_that_the_module_gives_it() {
        let text = Text::read("use a::A;\npub use self::{b::B as C, d::{self, D}};\npub(crate) use super::e;\n");
        let mut imports: Vec<(String, String)> =
            text.imports().into_iter().map(|import| (import.name, import.path.join("::"))).collect();
        imports.sort_unstable();
        let expected =
            [("A", "a::A"), ("C", "self::b::B"), ("D", "self::d::D"), ("d", "self::d::self"), ("e", "super::e")];
        assert_eq!(imports, expected.map(|(name, path)| (name.to_owned(), path.to_owned())));
    }
}
