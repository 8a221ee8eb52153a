//! The modules of a crate, and their uses of each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::paths::{ModulePath, Text, from_root};

/// For each of some modules side by side: the modules that it uses, and the places.
pub type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<Use>>>;

/// Greatest number of imports through which a name is followed to its item.
const MOST_IMPORTS: usize = 16;

/// A place where one module uses another one.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Use {
    /// File that names the path, from the crate's root on.
    pub file: PathBuf,
    /// Path of what is used.
    pub path: ModulePath,
}

/// All files of a crate.
#[derive(Debug, Default)]
pub struct Sources {
    files: BTreeMap<ModulePath, Vec<(PathBuf, Text)>>,
    /// Origin of each name that a module imports.
    imported: BTreeMap<ModulePath, ModulePath>,
}

impl Sources {
    /// Reads the crate that has its root in this folder, with modules that are there for its tests.
    ///
    /// # Panics
    ///
    /// Where a file cannot be read.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        add(root, root, &ModulePath::new(), &mut files);
        Self::of(files)
    }

    fn of(files: Vec<(ModulePath, PathBuf, Text)>) -> Self {
        let mut sources = Self::default();
        for (module, path, text) in files {
            sources.add_with_inner(module, path, text);
        }
        sources.imported = sources.imported_names();
        sources
    }

    /// Adds a module, and those that it has between braces.
    fn add_with_inner(&mut self, module: ModulePath, path: PathBuf, mut text: Text) {
        for (name, inner) in std::mem::take(&mut text.inner) {
            self.add_with_inner(below(&module, &name), path.clone(), inner);
        }
        self.files.entry(module).or_default().push((path, text));
    }

    fn imported_names(&self) -> BTreeMap<ModulePath, ModulePath> {
        let mut imported = BTreeMap::new();
        for (module, files) in &self.files {
            for import in files.iter().flat_map(|(_, text)| text.imports()) {
                let begins_here = ["crate", "super", "self"].contains(&import.path[0].as_str())
                    || self.has(&below(module, &import.path[0]));
                let name = below(module, &import.name);
                if let Some(path) = from_root(&import.path, module).filter(|path| begins_here && *path != name) {
                    imported.insert(name, path);
                }
            }
        }
        imported
    }

    fn has(&self, module: &[String]) -> bool {
        self.files.range(module.to_vec()..).next().is_some_and(|(found, _)| found.starts_with(module))
    }

    /// The crate, and each module that has others in it.
    #[must_use]
    pub fn parents(&self) -> BTreeSet<ModulePath> {
        let inner = self.files.keys().flat_map(|module| (1..module.len()).map(|length| module[..length].to_vec()));
        inner.chain([ModulePath::new()]).collect()
    }

    /// Uses among the modules directly in this one.
    #[must_use]
    pub fn uses_in(&self, parent: &[String]) -> Uses {
        let child = |path: &[String]| path.strip_prefix(parent)?.first().cloned();
        let mut uses: Uses =
            self.files.keys().filter_map(|module| child(module)).map(|name| (name, BTreeMap::new())).collect();
        let children: BTreeSet<String> = uses.keys().cloned().collect();
        for (module, files) in &self.files {
            let Some(all) = child(module).and_then(|user| uses.get_mut(&user)) else { continue };
            for (file, path) in
                files.iter().flat_map(|(file, text)| text.named(module).into_iter().map(move |path| (file, path)))
            {
                let path = self.at_home(path);
                let used = child(&path).filter(|used| children.contains(used) && Some(used) != child(module).as_ref());
                if let Some(used) = used {
                    all.entry(used).or_default().insert(Use { file: file.clone(), path });
                }
            }
        }
        uses
    }

    /// Follows imports to where a path's item is.
    fn at_home(&self, mut path: ModulePath) -> ModulePath {
        for _ in 0..MOST_IMPORTS {
            let imported = |length: &usize| !self.has(&path[..*length]) && self.imported.contains_key(&path[..*length]);
            let Some(length) = (1..=path.len()).find(imported) else { break };
            path = [&self.imported[&path[..length]], &path[length..]].concat();
        }
        path
    }
}

fn add(root: &Path, folder: &Path, module: &[String], files: &mut Vec<(ModulePath, PathBuf, Text)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources can be read") {
        let path = entry.expect("an entry of a folder can be read").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            // Each program in there is a crate of its own.
            if folder != root || name != "bin" {
                add(root, &path, &below(module, &name), files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_inner = !["lib", "main", "mod"].contains(&name.as_str());
            let module = if is_inner { below(module, &name) } else { module.to_vec() };
            let text = std::fs::read_to_string(&path).expect("a file of sources can be read");
            files.push((module, path.strip_prefix(root).unwrap_or(&path).to_owned(), Text::read(&text)));
        }
    }
}

fn below(module: &[String], name: &str) -> ModulePath {
    [module, &[name.to_owned()]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The uses at the top of a crate with these modules, as `user used`.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let read = |(module, text): &(&str, &str)| {
            let module: ModulePath = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
            (module.clone(), PathBuf::from(module.join("/")), Text::read(text))
        };
        let uses = Sources::of(files.iter().map(read).collect()).uses_in(&[]);
        uses.iter().flat_map(|(user, all)| all.keys().map(move |used| format!("{user} {used}"))).collect()
    }

    #[test]
    fn a_name_that_the_root_imports_is_used_from_where_it_is() {
        let files = [("", "pub use a::A;\npub use self::b::{B as C, b};\n"), ("a", "use crate::{C, b};"), ("b", "")];
        assert_eq!(uses(&files), ["a b"]);
        assert_eq!(
            uses(&[("", "use a::b;"), ("a", "use crate::b;\npub use crate::c::b;"), ("b", ""), ("c", "")]),
            ["a b", "a c"]
        );
    }

    #[test]
    fn a_module_uses_what_those_in_its_folder_use() {
        let files = [("a", ""), ("a::b::c", "use super::super::super::d;"), ("d", "use crate::a::b;"), ("e", "")];
        assert_eq!(uses(&files), ["a d", "d a"]);
    }

    #[test]
    fn what_only_tests_use_is_used() {
        let in_a_file = [("a", "#[cfg(test)]\nmod tests;\n"), ("a::tests", "use crate::b;"), ("b", "use crate::a;")];
        assert_eq!(uses(&in_a_file), ["a b", "b a"]);
        let within = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use super::super::b;\n    use super::c;\n}\n";
        assert_eq!(uses(&[("a", within), ("b", "use crate::a;"), ("c", "")]), ["a b", "b a"]);
    }
}
