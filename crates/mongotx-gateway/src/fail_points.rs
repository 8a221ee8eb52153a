//! The fail points `failCommand`, `failGetMoreAfterCursorCheckout`, `onPrimaryTransactionalWrite`,
//! `maxTimeAlwaysTimeOut` and `panicAfterCommand` (the gateway's own), for the test suites of
//! drivers: commands fail on request, before, after or instead of being carried out, or panic when
//! they were. `command/fail_point.rs` switches them.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bson::{Bson, Document};

use crate::{
    connection::Connection,
    failure::{Answer, Failure, codes},
    fields::Fields,
    session::labels,
};

/// The fail point of a `getMore` whose cursor was found.
const IN_GET_MORE: &str = "failGetMoreAfterCursorCheckout";
/// The longest that a command is held up.
const LONGEST_BLOCK: Duration = Duration::from_secs(60);

/// The fail points that are on.
#[derive(Default)]
pub(crate) struct FailPoints {
    on: Mutex<Option<FailCommand>>,
    /// State of the fail point `failGetMoreAfterCursorCheckout`.
    get_mores: Mutex<Option<FailCommand>>,
    /// `onPrimaryTransactionalWrite`. In MongoDB it acts on statements, here on commands.
    writes: Mutex<Option<FailCommand>>,
    /// State of the fail point `maxTimeAlwaysTimeOut`.
    limits: Mutex<Option<FailCommand>>,
    panics: Mutex<Option<FailCommand>>,
}

/// State of the fail point `failCommand`, or of one like it.
#[derive(Clone, Debug)]
struct FailCommand {
    commands: Vec<String>,
    app_name: Option<String>,
    /// Commands that are let through first.
    skip: u64,
    /// Number of times that it acts; `None`: always.
    times: Option<u64>,
    hit: FailPointEffect,
}

/// Effect of a fail point on a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailPointEffect {
    /// Time that the command waits before anything else.
    pub(crate) block: Option<Duration>,
    /// The client's connection is closed.
    pub(crate) close: bool,
    /// The name of the fail point.
    by: String,
    code: Option<i32>,
    labels: Option<Vec<Bson>>,
    /// Added to the reply of the command, which is carried out.
    pub(crate) concern_error: Option<Document>,
}

impl FailPointEffect {
    /// The reply instead of the command's own, if there is to be one. `ends`: the command commits
    /// or rolls back.
    pub(crate) fn reply(&self, name: &str, ends: bool, of_changes: bool, body: &Document) -> Option<Document> {
        let code = self.code?;
        let failure = Failure::new(code, format!("Failing command via '{}' failpoint: {name}", self.by));
        // `failCommand` acts before it is known what the cursor is of.
        let of_changes = of_changes && self.by == IN_GET_MORE;
        let failure = if of_changes { labels::add_for_changes(failure) } else { labels::add_for(failure, ends, body) };
        let mut reply = failure.to_document();
        if let Some(labels) = &self.labels {
            reply.remove("errorLabels");
            if !labels.is_empty() {
                reply.insert("errorLabels", labels.clone());
            }
        }
        Some(reply)
    }

    /// Adds `writeConcernError` and labels to a reply.
    pub(crate) fn add_to(&self, reply: &mut Document) {
        if let Some(error) = &self.concern_error {
            reply.insert("writeConcernError", error.clone());
            if let Some(labels) = self.labels.as_ref().filter(|labels| !labels.is_empty()) {
                reply.insert("errorLabels", labels.clone());
            }
        }
    }
}

impl FailPoints {
    /// Switches one of them as `configureFailPoint` says.
    ///
    /// # Errors
    /// 115 for other fail points, 2 and 14 for fields that mean nothing.
    pub(crate) fn set(&self, fields: Fields) -> Answer<()> {
        let (on, point) = parse(self, fields)?;
        *on.lock().unwrap_or_else(PoisonError::into_inner) = point;
        Ok(())
    }

    /// Returns true if no fail point is on.
    pub(crate) fn are_off(&self) -> bool {
        [&self.on, &self.get_mores, &self.writes, &self.limits, &self.panics]
            .iter()
            .all(|on| on.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    /// The effect on this command of this client.
    pub(crate) fn hit(&self, name: &str, connection: &Connection) -> Option<FailPointEffect> {
        let is_meant = |point: &FailCommand| point.is_about(name) && is_of(connection, point.app_name.as_deref());
        take(&self.on, is_meant).or_else(|| take(&self.get_mores, is_meant))
    }

    /// The effect on a command with a limit of time.
    pub(crate) fn hit_limited(&self) -> Option<FailPointEffect> {
        take(&self.limits, |_| true)
    }

    /// The effect on a retryable write that is not to be made.
    pub(crate) fn hit_write_before(&self) -> Option<FailPointEffect> {
        take(&self.writes, |point| point.hit.code.is_some())
    }

    /// The effect after a retryable write that was made now.
    pub(crate) fn hit_write_after(&self) -> Option<FailPointEffect> {
        take(&self.writes, |point| point.hit.code.is_none())
    }

    /// Panics if a test wants that after this command.
    pub(crate) fn panic_after(&self, name: &str) {
        if take(&self.panics, |point| point.is_about(name)).is_some() {
            panic!("the fail point panicAfterCommand is on");
        }
    }

    /// Panics if a test wants that after a statement of this command, whose result is not noted
    /// yet: the test names `NAME.statement`.
    pub(crate) fn panic_before_noting(&self, name: &str) {
        self.panic_after(&format!("{name}.statement"));
    }
}

impl FailCommand {
    /// A fail point with this effect on every command.
    fn of(hit: FailPointEffect) -> Self {
        Self { commands: Vec::new(), app_name: None, skip: 0, times: None, hit }
    }

    fn is_about(&self, name: &str) -> bool {
        self.commands.iter().any(|command| command == name)
    }
}

/// Counts one more command that the fail point is about, and returns the effect on it.
fn take(on: &Mutex<Option<FailCommand>>, is_meant: impl Fn(&FailCommand) -> bool) -> Option<FailPointEffect> {
    let mut on = on.lock().unwrap_or_else(PoisonError::into_inner);
    let point = on.as_mut().filter(|point| is_meant(point))?;
    if point.skip > 0 {
        point.skip -= 1;
        return None;
    }
    let hit = point.hit.clone();
    if let Some(times) = point.times.as_mut() {
        *times = times.saturating_sub(1);
        if *times == 0 {
            *on = None;
        }
    }
    Some(hit)
}

fn is_of(connection: &Connection, app_name: Option<&str>) -> bool {
    let Some(wanted) = app_name else { return true };
    let metadata = connection.metadata().unwrap_or_default();
    let application = metadata.get_document("application").ok();
    application.and_then(|application| application.get_str("name").ok()) == Some(wanted)
}

/// The fail point, with its new state; `None`: it is switched off.
type Parsed<'a> = (&'a Mutex<Option<FailCommand>>, Option<FailCommand>);

fn parse(points: &FailPoints, mut fields: Fields) -> Answer<Parsed<'_>> {
    let name = fields.text("configureFailPoint")?.unwrap_or_default();
    let on = match name.as_str() {
        "failCommand" => &points.on,
        IN_GET_MORE => &points.get_mores,
        "onPrimaryTransactionalWrite" => &points.writes,
        "maxTimeAlwaysTimeOut" => &points.limits,
        "panicAfterCommand" => &points.panics,
        _ => {
            let message = "the gateway has the fail points failCommand, failGetMoreAfterCursorCheckout, onPrimaryTransactionalWrite, \
                           maxTimeAlwaysTimeOut and panicAfterCommand only";
            return Err(Failure::new(codes::COMMAND_NOT_SUPPORTED, message));
        }
    };
    let mode = fields.any("mode");
    let data = fields.document("data")?.unwrap_or_default();
    fields.finish()?;
    let (skip, times) = match mode {
        Some(Bson::String(mode)) if mode == "off" => return Ok((on, None)),
        Some(Bson::String(mode)) if mode == "alwaysOn" => (0, None),
        Some(Bson::Document(mode)) => {
            let mut mode = Fields::new("configureFailPoint.mode", mode);
            let counts = (mode.natural("skip")?.unwrap_or(0), mode.natural("times")?);
            mode.finish()?;
            counts
        }
        _ => return Err(Failure::new(codes::BAD_VALUE, "'mode' must be 'off', 'alwaysOn', {times: n} or {skip: n}")),
    };
    let mut point = match name.as_str() {
        // Drivers' tests name commands here as well.
        IN_GET_MORE => FailCommand { commands: vec!["getMore".to_owned()], ..parse_data(&name, data)? },
        "onPrimaryTransactionalWrite" => parse_write_data(data)?,
        "maxTimeAlwaysTimeOut" => {
            FailCommand::of(FailPointEffect { code: Some(codes::MAX_TIME_EXPIRED), ..FailPointEffect::default() })
        }
        _ => parse_data(&name, data)?,
    };
    (point.skip, point.times, point.hit.by) = (skip, times, name);
    Ok((on, Some(point)))
}

/// Of `onPrimaryTransactionalWrite`: without a code the write is made, and its answer lost.
fn parse_write_data(data: Document) -> Answer<FailCommand> {
    let mut data = Fields::new("onPrimaryTransactionalWrite.data", data);
    let code = data.number("failBeforeCommitExceptionCode")?.and_then(|code| i32::try_from(code).ok());
    let close = data.flag("closeConnection")?.unwrap_or(true);
    data.finish()?;
    Ok(FailCommand::of(FailPointEffect { close, code, ..FailPointEffect::default() }))
}

fn parse_data(name: &str, data: Document) -> Answer<FailCommand> {
    let mut data = Fields::new(&format!("{name}.data"), data);
    let commands = data.array("failCommands")?.unwrap_or_default();
    let commands = commands.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    let blocks = data.flag("blockConnection")?.unwrap_or(false);
    let block_ms = data.natural("blockTimeMS")?.unwrap_or(0);
    let code = data.number("errorCode")?.and_then(|code| i32::try_from(code).ok());
    let hit = FailPointEffect {
        block: blocks.then(|| Duration::from_millis(block_ms).min(LONGEST_BLOCK)),
        close: data.flag("closeConnection")?.unwrap_or(false),
        code,
        labels: data.array("errorLabels")?,
        concern_error: data.document("writeConcernError")?,
        by: String::new(),
    };
    let app_name = data.text("appName")?;
    data.ignore(&["errmsg", "failInternalCommands", "namespace", "threadName"]);
    data.finish()?;
    Ok(FailCommand { commands, app_name, ..FailCommand::of(hit) })
}
