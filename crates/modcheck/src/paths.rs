//! The paths of its crate that a file names, read from its text: `use` items and paths in the code.
//! Macros are not expanded.

/// A module, or an item in one, by the names on the way to it from the crate's root.
pub type ModulePath = Vec<String>;

/// Declarations and uses of one module: of a file, or of a module that is written inside another.
#[derive(Debug, Default)]
pub struct Text {
    /// All its code, without comments and without that of [`Text::inner`].
    code: String,
    /// Names and texts of the modules that it has between braces.
    pub inner: Vec<(String, Self)>,
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
    /// Reads the text of a module, formatted by rustfmt.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut read = Self::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(name) = inner_module(line) {
                let inner = lines.by_ref().take_while(|line| *line != "}");
                let dedented = inner.flat_map(|line| [line.strip_prefix("    ").unwrap_or(line), "\n"]);
                read.inner.push((name.to_owned(), Self::read(&dedented.collect::<String>())));
            } else {
                read.code.extend([without_comment(line), "\n"]);
            }
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

/// Name of the module that begins on a line, if its code follows.
fn inner_module(line: &str) -> Option<&str> {
    let (visibility, module) = line.strip_suffix(" {")?.rsplit_once("mod ")?;
    let is_visibility = visibility.is_empty() || (visibility.starts_with("pub") && visibility.ends_with(' '));
    (is_visibility && module.chars().all(|one| one.is_alphanumeric() || one == '_')).then_some(module)
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
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

    /// The paths that a text names as the module `x::y`, in order.
    fn names(text: &Text) -> Vec<String> {
        let mut named: Vec<String> = text.named(&path("x::y")).iter().map(|path| path.join("::")).collect();
        named.sort_unstable();
        named
    }

    #[test]
    fn what_a_file_names_is_found_whatever_form_it_has() {
        let text = "use super::{a::A, b::{self, B as C}};\nuse crate::{c, d::{e::*, F},};\n\
                    fn f() { crate::g::h::<u8>(self::i) } // crate::no\n#[cfg(test)]\nmod j;\n\
                    #[cfg(test)]\nfn g() { crate::k() }";
        assert_eq!(
            names(&Text::read(text)),
            ["c", "d::F", "d::e::*", "g::h", "k", "x::a::A", "x::b", "x::b::B", "x::y::i"]
        );
    }

    #[test]
    fn a_module_between_braces_has_its_own_code() {
        let text = "use crate::a;\n#[cfg(test)]\npub(crate) mod z {\n    use crate::b;\n\n    pub mod w {\n        \
                    use crate::c;\n    }\n\n    fn f() {\n        crate::d()\n    }\n}\nfn g() {\n    crate::e()\n}\n";
        let outer = Text::read(text);
        assert_eq!(names(&outer), ["a", "e"]);
        let [(z, middle)] = &outer.inner[..] else { panic!("{outer:?}") };
        assert_eq!((z.as_str(), names(middle)), ("z", vec!["b".to_owned(), "d".to_owned()]));
        assert_eq!(middle.imports(), [Import { name: "b".to_owned(), path: path("crate::b") }]);
        let [(w, inmost)] = &middle.inner[..] else { panic!("{middle:?}") };
        assert_eq!((w.as_str(), names(inmost)), ("w", vec!["c".to_owned()]));
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
