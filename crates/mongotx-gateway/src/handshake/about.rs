//! What runs here: the options, the commands. The version and the machine are the server's: `passthrough/`.

use bson::{Bson, Document, doc};

use crate::{
    access,
    context::Context,
    dispatch::{self, Route},
    error::{CommandError, code},
    request::Request,
};

/// `getCmdLineOpts`: the gateway's.
pub(super) fn command_line(context: &Context, request: &Request) -> Result<Document, CommandError> {
    admin_only(request)?;
    let mut net = Document::new();
    if let Some(address) = context.options.listen {
        net.extend(doc! {"bindIp": address.ip().to_string(), "port": i32::from(address.port())});
    }
    if let Some(path) = &context.options.unix {
        net.insert("unixDomainSocket", path.to_string_lossy().as_ref());
    }
    Ok(doc! {"argv": ["mongotx", "serve"], "parsed": {"net": net}, "ok": 1.0})
}

/// `listCommands`: names, and whether they work.
pub(super) fn commands() -> Document {
    let mut commands = Document::new();
    for (names, route) in dispatch::routes() {
        let Some(name) = names.first().filter(|_| !matches!(route, Route::Refused(..))) else { continue };
        commands.insert(*name, doc! {"help": "", "adminOnly": false, "requiresAuth": !access::is_open(name)});
    }
    doc! {"commands": Bson::Document(commands), "ok": 1.0}
}

fn admin_only(request: &Request) -> Result<(), CommandError> {
    if request.database() == "admin" {
        return Ok(());
    }
    let text = format!("{} may only be run against the admin database.", request.name());
    Err(CommandError::new(code::UNAUTHORIZED, text))
}
