//! Every relative link in the project's pages leads to a file, and to a heading of it where it
//! names one; every page of `docs` is in the book. Without a network: links to other hosts are not
//! followed.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Folders with pages of the project. Those below `target` and of installed packages are not the
/// project's.
const FOLDERS: [&str; 5] = ["docs", "drivers", "crates", "packages", "packaging"];
const SKIPPED: [&str; 4] = ["target", "node_modules", "dist", "build"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Markdown file of the project.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = files(&root()).into_iter().filter(|path| is_page(path)).collect();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for path in files(&folder) {
            if is_page(&path) {
                pages.push(path);
            } else if path.is_dir() && !SKIPPED.iter().any(|name| path.ends_with(name)) {
                folders.push(path);
            }
        }
    }
    pages
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn is_page(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|extension| extension == "md")
}

/// The links of a page, and the anchors that it has.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: HashSet<String>,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut page = Self::default();
        let mut heading = None;
        for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.add_anchor(&heading.take().unwrap_or_default()),
                Event::Text(words) | Event::Code(words) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&words))
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string())
                }
                _ => {}
            }
        }
        page
    }

    /// The anchor that readers of Markdown give a heading; of equal ones the later have a number.
    fn add_anchor(&mut self, heading: &str) {
        let kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let anchor: String = heading.trim().to_lowercase().replace(' ', "-").chars().filter(|c| kept(*c)).collect();
        let numbered = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !self.anchors.contains(anchor));
        self.anchors.extend(free);
    }
}

/// Reason why a link of a page leads nowhere.
fn fault(from: &Path, link: &str, pages: &HashMap<PathBuf, Page>) -> Option<String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let to = if path.is_empty() { from.to_owned() } else { from.parent()?.join(path) };
    let Ok(to) = to.canonicalize() else { return Some("there is no such file".to_owned()) };
    if !to.starts_with(root()) {
        return Some("it leads out of the project".to_owned());
    }
    let anchor = anchor?;
    let anchors = &pages.get(&to)?.anchors;
    (!anchors.contains(anchor)).then(|| format!("there is no heading #{anchor}"))
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let pages: HashMap<PathBuf, Page> = pages().into_iter().map(|path| (path.clone(), Page::read(&path))).collect();
    let mut faults = Vec::new();
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            if let Some(why) = fault(path, link, &pages) {
                faults.push(format!("{}: {link}: {why}", path.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(pages.len() > 50, "{} pages were found", pages.len());
    faults.sort();
    assert!(faults.is_empty(), "{} links lead nowhere:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_page_of_docs_is_in_the_book() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let listed: HashSet<PathBuf> =
        Page::read(&summary).links.iter().map(|link| docs.join(link).canonicalize().unwrap()).collect();
    let missing: Vec<String> = pages()
        .into_iter()
        .filter(|path| path.starts_with(&docs) && *path != summary && !listed.contains(path))
        .map(|path| path.strip_prefix(&docs).unwrap().display().to_string())
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {}", missing.join(", "));
}
