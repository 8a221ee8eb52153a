//! `mongotx checkpoint`: finishes everything decided, and holds transactions while the
//! application's databases are copied.
//!
//! It writes to standard error: standard output belongs to the command that it runs. Exit status 0:
//! transactions were held until the command had succeeded. 1: they were not, or the command failed;
//! the copy must not be used.

use std::{
    ffi::OsString,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use clap::Args;
use mongotx::{Checkpoint, CheckpointResult};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    connect::ServerOptions,
    failure::{Failure, Status, WELL, WRONG},
    interrupt::Interrupts,
    say::{self, warn},
};

/// The longest time for which a hold may stand.
const LONGEST: Duration = Duration::from_secs(6 * 3600);
/// Time that an interrupted command gets to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// Options of the command `mongotx checkpoint`.
#[derive(Args)]
pub(crate) struct CheckpointOptions {
    /// Longest time for which transactions are held: 30s, 10m, 1h; 1s to 6h. A command that takes
    /// longer is ended
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    hold: Duration,
    #[command(flatten)]
    server: ServerOptions,
    /// Command to run while transactions are held, such as a dump; transactions go on when it has
    /// ended. Without one they are held for the whole time
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Reason why the hold is over.
enum Over {
    /// The command that makes the copies has ended.
    Done(ExitStatus),
    /// The time allowed is over.
    Time,
    /// The hold was broken, by the lapse of its time or by another process.
    Broken,
    /// The user has interrupted the program.
    Asked(Failure),
}

/// Runs the command `mongotx checkpoint`.
pub(crate) async fn run_checkpoint(options: CheckpointOptions) -> Result<Status, Failure> {
    let mut interrupts = Interrupts::catch()?;
    let client = options.server.connect().await?;
    let checkpoint = tokio::select! {
        checkpoint = client.checkpoint() => checkpoint?,
        asked = interrupts.next() => return Err(asked),
    };
    let preparation = checkpoint.preparation();
    warn(&format!(
        "Everything that was decided is finished, and transactions are held for {} at most. {} finished or undone now; what {} had not \
         decided was rolled back.",
        say::span(options.hold),
        say::count(preparation.repaired, "document"),
        say::count(preparation.fenced, "living client"),
    ));
    let begun = Instant::now();
    let over = match options.command.is_empty() {
        true => hold(&checkpoint, &mut interrupts, begun + options.hold).await,
        false => hold_for(&options.command, &checkpoint, &mut interrupts, begun + options.hold).await,
    };
    let ended = checkpoint.end().await;
    let over = over?;
    let ended = ended?;
    tell(&over, &ended, begun.elapsed());
    match over {
        Over::Asked(asked) if !options.command.is_empty() => Err(asked),
        Over::Done(status) if !status.success() => Ok(WRONG),
        Over::Time if !options.command.is_empty() => Ok(WRONG),
        _ if ended.broken.is_some() || ended.late > 0 => Ok(WRONG),
        _ => Ok(WELL),
    }
}

async fn hold(checkpoint: &Checkpoint, interrupts: &mut Interrupts, until: Instant) -> Result<Over, Failure> {
    warn("Copy now. An interrupt (Ctrl-C) lets transactions go on earlier.");
    Ok(tokio::select! {
        _ = checkpoint.until_broken() => Over::Broken,
        () = sleep_until(until) => Over::Time,
        asked = interrupts.next() => Over::Asked(asked),
    })
}

async fn hold_for(
    command: &[OsString],
    checkpoint: &Checkpoint,
    interrupts: &mut Interrupts,
    until: Instant,
) -> Result<Over, Failure> {
    let [program, args @ ..] = command else { return Ok(Over::Time) };
    let started = Command::new(program).args(args).stdin(Stdio::inherit()).kill_on_drop(true).spawn();
    let mut child = started.map_err(|error| Failure::new(format!("cannot run {program:?}: {error}")))?;
    let over = tokio::select! {
        ended = child.wait() => Over::Done(ended?),
        _ = checkpoint.until_broken() => Over::Broken,
        () = sleep_until(until) => Over::Time,
        asked = interrupts.next() => Over::Asked(asked),
    };
    if !matches!(over, Over::Done(_)) {
        end(&mut child).await;
    }
    Ok(over)
}

/// Requests the command to end, and kills it if it does not.
async fn end(child: &mut Child) {
    if let Some(id) = child.id() {
        // The process may have ended just now.
        let _ = local_mongod::signal::terminate(id);
    }
    if timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

fn tell(over: &Over, ended: &CheckpointResult, held: Duration) {
    let held = say::span(held);
    match over {
        Over::Done(status) if !status.success() => warn(&format!("The command has failed ({status}).")),
        Over::Time => warn(&format!("The time is over (--hold): {held}.")),
        Over::Asked(_) => warn("Interrupted."),
        Over::Done(_) | Over::Broken => {}
    }
    match ended {
        CheckpointResult { broken: Some(reason), .. } => warn(&format!(
            "Broken after {held}: {}. What was copied may be of several moments: do not use it.",
            say::plain(reason)
        )),
        CheckpointResult { late: 0, .. } => warn(&format!("Transactions were held for {held}, and none was decided.")),
        CheckpointResult { late, .. } => warn(&format!(
            "Transactions were held for {held}, and none was decided. But messages that came late have locked {} meanwhile: their \
             copies may have reserved fields, with the right values beside them. Copy again, or run `mongotx doctor --repair` \
             where the copy is put back.",
            say::count(*late, "document")
        )),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("a number and s, m or h, such as 30s".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "a number and s, m or h, such as 30s".to_owned())?;
    match Duration::from_secs(number.saturating_mul(seconds)) {
        Duration::ZERO => Err("a second at least".to_owned()),
        span if span > LONGEST => Err(format!("at most {}", say::span(LONGEST))),
        span => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_limits() {
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(time("30"), Ok(Duration::from_secs(30)));
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(time("6h"), Ok(LONGEST));
        for bad in ["", "s", "0s", "7h", "10d", "-1s", "1.5m", "99999999999999999999s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
