//! Who asks: the connection's own address, and its users. There are no users yet.

use bson::{Document, doc};

use crate::{connection::Connection, request::Request};

/// `whatsmyuri`.
pub(super) fn address(connection: &Connection) -> Document {
    doc! {"you": connection.peer().to_string(), "ok": 1.0}
}

/// `connectionStatus`.
pub(super) fn status(request: &Request) -> Document {
    let mut info = doc! {"authenticatedUsers": [], "authenticatedUserRoles": []};
    if matches!(request.body().get_bool("showPrivileges"), Ok(true)) {
        info.insert("authenticatedUserPrivileges", bson::Bson::Array(Vec::new()));
    }
    doc! {"authInfo": info, "ok": 1.0}
}
