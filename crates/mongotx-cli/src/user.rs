//! `mongotx user`: the users who may log in to a gateway. Changes the file that `mongotx serve
//! --users` reads when it starts, and again on SIGHUP.

use std::{
    io::{IsTerminal, Read},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use mongotx_gateway::{Role, UserName, Users, UsersError};

use crate::{
    failure::{Failure, Status, WELL},
    say,
};

/// The longest password that is read, in bytes.
const LONGEST_BYTES: u64 = 4_096;

/// Options of the command `mongotx user`.
#[derive(Args)]
pub(crate) struct UserOptions {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Adds a user. The password is asked for, or is the first line of standard input
    Add {
        #[command(flatten)]
        who: Who,
        /// Roles of the user, separated by commas: read:DATABASE, readWrite:DATABASE,
        /// dbAdmin:DATABASE, dbOwner:DATABASE, readAnyDatabase, readWriteAnyDatabase,
        /// dbAdminAnyDatabase, clusterMonitor, backup, restore, root
        #[arg(long, value_name = "ROLES", value_delimiter = ',')]
        roles: Vec<Role>,
    },
    /// Gives a user another password. It is asked for, or is the first line of standard input
    Password {
        #[command(flatten)]
        who: Who,
    },
    /// Gives a user other roles, in the place of those it has
    Roles {
        #[command(flatten)]
        who: Who,
        /// New roles of the user, as for `add`; none if none are given
        #[arg(long, value_name = "ROLES", value_delimiter = ',')]
        roles: Vec<Role>,
    },
    /// Removes a user
    Remove {
        #[command(flatten)]
        who: Who,
    },
    /// Lists the users and their roles
    List {
        /// The file of the users
        #[arg(long, value_name = "FILE")]
        users: PathBuf,
    },
}

/// Name of a user, and the file with the users.
#[derive(Args)]
struct Who {
    /// Name of the user
    name: String,
    /// The file of the users; it is made if it is not there
    #[arg(long, value_name = "FILE")]
    users: PathBuf,
    /// The database at which the user logs in (authSource)
    #[arg(long, value_name = "NAME", default_value = "admin")]
    database: String,
}

impl Who {
    fn name(&self) -> UserName {
        UserName { database: self.database.clone(), name: self.name.clone() }
    }
}

/// Runs the command `mongotx user`.
pub(crate) async fn run_user(options: UserOptions) -> Result<Status, Failure> {
    match options.action {
        Action::Add { who, roles } => {
            let password = password()?;
            Users::change(&who.users, |users| users.add(who.name(), &password, roles)).map_err(failure)?;
        }
        Action::Password { who } => {
            let password = password()?;
            Users::change(&who.users, |users| users.set_password(&who.name(), &password)).map_err(failure)?;
        }
        Action::Roles { who, roles } => {
            Users::change(&who.users, |users| users.set_roles(&who.name(), roles)).map_err(failure)?;
        }
        Action::Remove { who } => Users::change(&who.users, |users| users.remove(&who.name())).map_err(failure)?,
        Action::List { users } => list(&Users::read(&users).map_err(failure)?),
    }
    Ok(WELL)
}

fn list(users: &Users) {
    for (name, roles) in users.list() {
        let roles: Vec<String> = roles.iter().map(Role::to_string).collect();
        say::line(&format!("{}\t{}", say::plain(&name.to_string()), say::plain(&roles.join(","))));
    }
}

/// Reads a password from the terminal, without showing it, or from the first line of standard
/// input.
fn password() -> Result<String, Failure> {
    let input = std::io::stdin();
    if input.is_terminal() {
        let password = rpassword::prompt_password("password: ")?;
        let again = rpassword::prompt_password("again: ")?;
        return if password == again { Ok(password) } else { Err(Failure::new("the two passwords differ")) };
    }
    let mut bytes = Vec::new();
    input.take(LONGEST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_BYTES {
        return Err(Failure::new(format!("standard input: a password has at most {LONGEST_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| Failure::new("standard input: the password is no UTF-8"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn failure(error: UsersError) -> Failure {
    Failure::new(error.to_string())
}
