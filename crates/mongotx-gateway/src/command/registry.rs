//! The type of a row of the table of commands, and the look-up of a row by a command's name. The
//! rows themselves are in `table.rs`, whose header explains them; the privilege that a command
//! needs is in `access/`.

use std::{collections::HashMap, sync::Arc};

use bson::{Bson, Document};
use futures_util::future::BoxFuture;

use super::parts::{plan::Explain, read_concern::ReadLevels};
use crate::{
    access::{Access, Need},
    api::{Api, ApiParameters},
    connection::Connection,
    context::Context,
    error::{Code, CommandError},
    failure::{Answer, Failure, codes},
    fields::Fields,
    reply::Reply,
    request::Request,
    upstream::Lane,
};

/// A command: a row of the table.
pub(crate) struct Command {
    /// Names of the command, spelled as MongoDB spells them; the first is the usual one.
    pub(crate) names: &'static [&'static str],
    /// Privilege that the command needs of its user.
    pub(crate) access: Access,
    /// Part of the gateway that answers the command.
    pub(crate) route: Route,
    /// Places in a transaction at which the command may run.
    pub(crate) in_transactions: InTransactions,
    /// The command kills sessions, its own perhaps among them.
    pub(crate) kills_sessions: bool,
    /// The command waits for documents as long as its time limit, which it heeds by itself.
    pub(crate) awaits: bool,
    /// The levels of read concern that it takes outside transactions.
    pub(crate) reads: ReadLevels,
    /// Place of the command in API version 1.
    pub(crate) api: Api,
    /// The command takes a write concern.
    pub(crate) takes_write_concern: bool,
    /// Reader of the command's own fields.
    pub(crate) parse: Parse,
    /// Form in which `explain` shows the command.
    pub(crate) explain: Explain,
}

/// Part of the gateway that answers a command.
pub(crate) enum Route {
    /// `command/` answers it: it reads or writes documents, or is about transactions and sessions.
    Transactional(Run),
    /// `handshake/` answers it: it is about the gateway itself.
    Local(Local),
    /// `passthrough/` sends it to the server: MongoTx need not touch it.
    Through(Lane),
    /// The command is refused with this code and reason.
    Refused(Code, &'static str),
}

/// Carries a command out, from its arrival to its reply. Its one future is on the heap, and what is
/// in it needs no box of its own.
pub(crate) type Run = for<'a> fn(ArrivedCommand<'a>) -> Running<'a>;
/// A command that is being carried out.
pub(crate) type Running<'a> = BoxFuture<'a, Result<Reply, CommandError>>;
/// Answers a command that is about the gateway itself.
pub(crate) type Local = for<'a> fn(ArrivedCommand<'a>) -> Result<Reply, CommandError>;

/// A command that has arrived, for the handler that answers it.
#[derive(Clone, Copy)]
pub(crate) struct ArrivedCommand<'a> {
    pub(crate) context: &'a Context,
    pub(crate) connection: &'a Connection,
    pub(crate) request: &'a Arc<Request>,
    pub(crate) command: &'static Command,
}

/// Places in a transaction at which a command may run, as on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InTransactions {
    /// A transaction may hold it.
    Held,
    /// A transaction may hold it, but not begin with it.
    HeldLater,
    /// The command ends a transaction.
    Ends,
    /// No transaction may hold it.
    Never,
    /// No transaction may hold it, for which the server has words of its own.
    NeverBecause(&'static str),
}

/// The way in which the own fields of a command are read, as far as that needs no server: the
/// fields that remain without those of the session and those that every command may carry.
#[derive(Clone, Copy)]
pub(crate) enum Parse {
    /// The fields are not read: the server parses them, or there are none.
    Nothing,
    /// All fields but the first one, which names the command.
    Own(fn(Fields) -> Answer<()>),
    /// Reads all fields, and is given the command's name.
    Whole(fn(&str, Document) -> Answer<()>),
    /// As fields of the other command that is in them.
    Another,
}

impl Command {
    /// A row for a command that transactions do not hold, and for which nothing else of the table
    /// applies.
    pub(super) const fn new(names: &'static [&'static str], access: Access, route: Route) -> Self {
        Self {
            names,
            access,
            route,
            in_transactions: InTransactions::Never,
            kills_sessions: false,
            awaits: false,
            reads: ReadLevels::Usual,
            api: Api::Outside,
            takes_write_concern: false,
            parse: Parse::Nothing,
            explain: Explain::No,
        }
    }

    /// Returns true if the command with these fields changes nothing.
    pub(crate) fn only_reads(&self, body: &Document) -> bool {
        let writes = |stage: &Bson| {
            let stage = stage.as_document();
            stage.is_some_and(|stage| ["$out", "$merge"].iter().any(|name| stage.contains_key(name)))
        };
        match self.access {
            Access::On(Need::Read) | Access::OfCursor => true,
            Access::Pipeline => !body.get_array("pipeline").is_ok_and(|stages| stages.last().is_some_and(writes)),
            _ => false,
        }
    }

    /// Returns true if the command with these fields changes nothing but its cursor and its
    /// transaction, which can be ended.
    pub(crate) fn can_be_undone(&self, body: &Document) -> bool {
        match self.access {
            // The results of a `mapReduce` are in the reply only if they are not written.
            Access::Open
            | Access::OfCursor
            | Access::MapReduce
            | Access::FullName
            | Access::Operations
            | Access::Inner => true,
            Access::On(need) => [Need::Read, Need::See, Need::Monitor].contains(&need),
            Access::Pipeline => self.only_reads(body),
            Access::Own | Access::Rename | Access::View(_) => false,
        }
    }

    /// Returns true if the command with these fields is given up when its client is gone: it
    /// changes nothing that outlives it.
    pub(crate) fn ends_with_client(&self, body: &Document) -> bool {
        match self.access {
            Access::MapReduce => body.get_document("out").is_ok_and(|out| out.contains_key("inline")),
            _ => self.can_be_undone(body),
        }
    }

    /// Allows the command in transactions.
    pub(super) const fn held(self) -> Self {
        Self { in_transactions: InTransactions::Held, ..self }
    }

    /// Transactions may hold it, but not begin with it.
    pub(super) const fn held_later(self) -> Self {
        Self { in_transactions: InTransactions::HeldLater, ..self }
    }

    /// Marks a command that ends a transaction.
    pub(super) const fn ending(self) -> Self {
        Self { in_transactions: InTransactions::Ends, ..self }
    }

    /// Transactions may not hold it, for which the server has these words.
    pub(super) const fn refused_in_transactions(self, words: &'static str) -> Self {
        Self { in_transactions: InTransactions::NeverBecause(words), ..self }
    }

    /// Marks a command that kills sessions.
    pub(super) const fn kills_sessions(self) -> Self {
        Self { kills_sessions: true, ..self }
    }

    /// The same command, which heeds its time limit by itself.
    pub(super) const fn awaits(self) -> Self {
        Self { awaits: true, ..self }
    }

    /// With the levels of read concern that it takes outside transactions.
    pub(super) const fn reads(self, reads: ReadLevels) -> Self {
        Self { reads, ..self }
    }

    /// Puts the command into API version 1, without these fields.
    pub(super) const fn stable_but(self, unstable: &'static [&'static str]) -> Self {
        Self { api: Api::Stable(unstable), ..self }
    }

    /// Puts the command into API version 1, with all of its fields.
    pub(super) const fn stable(self) -> Self {
        self.stable_but(&[])
    }

    /// Lets the command take a write concern.
    pub(super) const fn takes_write_concern(self) -> Self {
        Self { takes_write_concern: true, ..self }
    }

    /// Sets the parser of the command's own fields, without the first one.
    pub(super) const fn parsed(self, parse: fn(Fields) -> Answer<()>) -> Self {
        Self { parse: Parse::Own(parse), ..self }
    }

    /// Sets the parser of all fields of the command.
    pub(super) const fn parsed_whole(self, parse: fn(&str, Document) -> Answer<()>) -> Self {
        Self { parse: Parse::Whole(parse), ..self }
    }

    /// Marks a command that has another command in its fields.
    pub(super) const fn parsed_as_another(self) -> Self {
        Self { parse: Parse::Another, ..self }
    }

    /// Sets the way in which the command is explained.
    pub(super) const fn explained(self, explain: Explain) -> Self {
        Self { explain, ..self }
    }

    /// Refuses wrong fields of a command, whatever its route, before its transaction is considered.
    ///
    /// # Errors
    /// 323 for a command outside the API version that the client demands, 72 for a write concern of
    /// a command that does not write.
    pub(crate) fn check(&self, api: ApiParameters, has_write_concern: bool) -> Answer<()> {
        api.check_command(self.api, self.names.first().copied().unwrap_or_default())?;
        // Commands that the server or the handshake answers are checked there.
        let is_own = matches!(self.route, Route::Transactional(_) | Route::Local(_));
        if has_write_concern && is_own && !self.takes_write_concern {
            return Err(Failure::new(codes::INVALID_OPTIONS, "Command does not support writeConcern"));
        }
        Ok(())
    }

    /// Returns true if the command commits or rolls back a transaction.
    pub(crate) fn ends_transactions(&self) -> bool {
        self.in_transactions == InTransactions::Ends
    }

    /// Returns true if the gateway runs the command through MongoTx.
    pub(crate) fn is_transactional(&self) -> bool {
        matches!(self.route, Route::Transactional(_))
    }
}

/// A command of the table, under the name that the client has sent.
#[derive(Clone, Copy)]
pub(crate) struct NamedCommand {
    /// One of its names, as the table has it: for metrics.
    pub(crate) name: &'static str,
    pub(crate) command: &'static Command,
}

/// The rows by their names.
pub(super) struct Registry {
    by_name: HashMap<&'static str, NamedCommand>,
}

impl Registry {
    pub(super) fn of(rows: &'static [Command]) -> Self {
        let known =
            |command: &'static Command| command.names.iter().map(move |name| (*name, NamedCommand { name, command }));
        Self { by_name: rows.iter().flat_map(known).collect() }
    }

    /// The command of this name. Names are spelled as MongoDB spells them.
    pub(super) fn find(&self, name: &str) -> Option<NamedCommand> {
        self.by_name.get(name).copied()
    }

    /// Number of names in the table.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}
