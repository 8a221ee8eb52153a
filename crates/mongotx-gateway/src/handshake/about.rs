//! Commands about the gateway itself: its options, its commands. Version and machine are the
//! server's: `passthrough/`.

use bson::{Bson, Document, doc};

use crate::{
    context::Context,
    error::{CommandError, code},
    reply::Reply,
    request::Request,
};

/// Answers `getCmdLineOpts` with the gateway's options.
pub(crate) fn command_line(context: &Context, request: &Request) -> Result<Reply, CommandError> {
    admin_only(request)?;
    let mut net = Document::new();
    if let Some(address) = context.options.listen {
        net.extend(doc! {"bindIp": address.ip().to_string(), "port": i32::from(address.port())});
    }
    if let Some(path) = &context.options.unix {
        net.insert("unixDomainSocket", path.to_string_lossy().as_ref());
    }
    Ok(doc! {"argv": ["mongotx", "serve"], "parsed": {"net": net}, "ok": 1.0}.into())
}

/// The entry for one command in the answer to `listCommands`.
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    /// True if clients have to log in to run the command.
    pub(crate) requires_auth: bool,
    /// Versions of the stable API that the command is in.
    pub(crate) api_versions: &'static [&'static str],
}

/// `listCommands`: names, and whether they work.
pub(crate) fn commands(commands: impl Iterator<Item = Listed>) -> Reply {
    let described = commands.map(|Listed { name, requires_auth, api_versions }| {
        let described = doc! {
            "help": "", "requiresAuth": requires_auth, "adminOnly": false, "apiVersions": api_versions,
            "deprecatedApiVersions": [],
        };
        (name.to_owned(), Bson::from(described))
    });
    doc! {"commands": described.collect::<Document>(), "ok": 1.0}.into()
}

fn admin_only(request: &Request) -> Result<(), CommandError> {
    if request.database() == "admin" {
        return Ok(());
    }
    let text = format!("{} may only be run against the admin database.", request.name());
    Err(CommandError::new(code::UNAUTHORIZED, text))
}
