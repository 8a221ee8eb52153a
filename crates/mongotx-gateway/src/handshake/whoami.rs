//! Commands about the connection itself: its address (`whatsmyuri`), and its user
//! (`connectionStatus`).

use bson::{Bson, Document, doc};

use crate::{connection::Connection, request::Request};

/// Answers `whatsmyuri` with the client's address.
pub(super) fn address(connection: &Connection) -> Document {
    doc! {"you": connection.peer().to_string(), "ok": 1.0}
}

/// Answers `connectionStatus` with the connection's user.
pub(super) fn status(connection: &Connection, request: &Request) -> Document {
    let user = connection.user();
    let users: Vec<Bson> =
        user.iter().map(|user| doc! {"user": &user.name.name, "db": &user.name.database}.into()).collect();
    let roles = user.iter().flat_map(|user| &user.roles);
    let roles: Vec<Bson> =
        roles.map(|role| doc! {"role": role.name(), "db": role.database().unwrap_or("admin")}.into()).collect();
    let mut info = doc! {"authenticatedUsers": users, "authenticatedUserRoles": roles};
    if matches!(request.body().get_bool("showPrivileges"), Ok(true)) {
        // Roles are all that there is: see docs/gateway.md.
        info.insert("authenticatedUserPrivileges", Bson::Array(Vec::new()));
    }
    doc! {"authInfo": info, "ok": 1.0}
}
