//! The server's views: replaced by what they are on before any other command is sent, because a
//! view would show stored documents through a pipeline that is not mapped.

use std::collections::BTreeMap;

use bson::{Document, doc};
use sd2v::pipeline::{View, expand_views, named_collections};

use crate::{
    coordinator::{Core, catalog::ViewOptions, request::pipeline::AggregateCommand, schema::same_collation},
    error::{Error, Result},
    options::Namespace,
};

/// Names that one pipeline may mention, through views and directly.
const MAX_NAMES: usize = 1_000;

/// A pipeline in which views are replaced by their definitions.
pub(crate) struct Resolved {
    pub(crate) ns: Namespace,
    pub(crate) pipeline: Vec<Document>,
    /// Collation of its strings; `None`: the collection's default.
    pub(crate) collation: Option<Document>,
    /// True if its strings compare otherwise than by their bytes.
    pub(crate) collated: bool,
}

impl Resolved {
    pub(crate) async fn of(core: &Core, ns: &Namespace, command: &AggregateCommand) -> Result<Self> {
        let asked = command.options.collation.clone();
        let views = find_views(core, ns, &command.pipeline).await?;
        let definitions = views.iter().map(|(name, view)| (name.clone(), definition(view))).collect();
        let main = (!ns.coll.is_empty()).then_some(ns.coll.as_str());
        let (base, pipeline) = expand_views(main, &command.pipeline, &definitions)?;
        let base = Namespace::new(&ns.db, base.as_deref().unwrap_or_default());
        let default = match main {
            Some(_) => core.catalog.look_up(&base).await?.collation.clone(),
            None => None,
        };
        let has_default = default.is_some();
        let collation = match main.and_then(|main| views.get(main)) {
            None => asked,
            Some(view) => view_collation(ns, view, asked, has_default)?,
        };
        let collated = collation.as_ref().map_or(has_default, is_real);
        let of_all = collation.as_ref().or(default.as_ref());
        for (name, view) in &views {
            refuse_other_collation(name, view, of_all, collated)?;
        }
        Ok(Self { ns: base, pipeline, collation, collated })
    }
}

/// Returns true if this collation compares strings otherwise than by their bytes.
fn is_real(collation: &Document) -> bool {
    collation.get_str("locale").is_ok_and(|locale| locale != "simple")
}

fn definition(view: &ViewOptions) -> View {
    View { on: view.on.clone(), stages: view.pipeline.clone() }
}

/// All views that the pipeline reads, directly and through others.
async fn find_views(core: &Core, ns: &Namespace, pipeline: &[Document]) -> Result<BTreeMap<String, ViewOptions>> {
    let mut waiting: Vec<String> = named_collections(pipeline)?.into_iter().collect();
    waiting.extend((!ns.coll.is_empty()).then(|| ns.coll.clone()));
    let (mut seen, mut views) = (Vec::new(), BTreeMap::new());
    while let Some(name) = waiting.pop() {
        if seen.contains(&name) {
            continue;
        }
        if seen.len() >= MAX_NAMES {
            let message = format!("the pipeline names more than {MAX_NAMES} collections and views");
            return Err(Error::invalid(165, message));
        }
        let found = core.catalog.look_up(&Namespace::new(&ns.db, &name)).await?;
        if let Some(view) = found.view.clone() {
            waiting.push(view.on.clone());
            waiting.extend(named_collections(&view.pipeline)?);
            views.insert(name.clone(), view);
        }
        seen.push(name);
    }
    Ok(views)
}

/// A view has its own collation, and is read with no other.
fn view_collation(
    ns: &Namespace,
    view: &ViewOptions,
    asked: Option<Document>,
    base_has_default: bool,
) -> Result<Option<Document>> {
    if asked.as_ref().is_some_and(|asked| !same_collation(view.collation.as_ref(), Some(asked))) {
        return Err(Error::invalid(167, format!("the view {ns} has its own collation: leave it out of the command")));
    }
    let bytes = base_has_default.then(|| doc! {"locale": "simple"});
    Ok(view.collation.clone().or(bytes))
}

/// As the server, which reads no view under another collation than the view's own.
fn refuse_other_collation(name: &str, view: &ViewOptions, of_all: Option<&Document>, collated: bool) -> Result<()> {
    let own = view.collation.as_ref().filter(|collation| is_real(collation));
    let same = match own {
        None => !collated,
        Some(own) => same_collation(Some(own), of_all),
    };
    if same {
        return Ok(());
    }
    Err(Error::invalid(167, format!("the view {name:?} has another collation than the command that reads it")))
}

/// Returns true if it is a view, which only a pipeline reads.
pub(crate) async fn is_view(core: &Core, ns: &Namespace) -> Result<bool> {
    Ok(core.catalog.look_up(ns).await?.view.is_some())
}
