//! What runs here: the options, the commands. The version and the machine are the server's: `passthrough/`.

use bson::{Bson, Document, doc};

use crate::{
    context::Context,
    error::{CommandError, code},
    reply::Reply,
    request::Request,
};

/// `getCmdLineOpts`: the gateway's.
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

/// `listCommands`: names, and whether they work. `commands`: each one's name, and whether clients have to log in for it.
pub(crate) fn commands(commands: impl Iterator<Item = (&'static str, bool)>) -> Reply {
    let described = commands.map(|(name, requires_auth)| {
        (name.to_owned(), Bson::from(doc! {"help": "", "adminOnly": false, "requiresAuth": requires_auth}))
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
