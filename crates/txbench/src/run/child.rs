//! A part of a run's clients in a process of its own, and that process.
//!
//! The parent writes the job and then orders to the child's input, a line of JSON each; the child
//! answers in the same way. The child ends when its input does: it is not left behind.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use benchkit::measure::Second;
use futures_util::FutureExt;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, Lines, Stdin},
    process::{Child as Process, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{
    job::{Answer, Job, JobResult, Order},
    part::Part,
};
use crate::error::BenchError;

/// The hidden subcommand of the command that runs a part.
pub const SUBCOMMAND: &str = "bench-clients";
/// Time between two progress reports of a child.
const EVERY: Duration = Duration::from_millis(250);
/// Time that a child may be silent: it answers every [`EVERY`], except while it connects and ends.
const SILENCE: Duration = Duration::from_secs(120);

/// The parent's end of a child process.
pub(crate) struct Child {
    /// Killed when this is dropped.
    _process: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    so_far: Second,
    finished: bool,
    heard: Instant,
}

impl Child {
    /// Starts a process and waits until its clients work.
    pub(crate) async fn start(job: &Job) -> Result<Self, BenchError> {
        let program = std::env::current_exe().map_err(failed("find this program"))?;
        let mut process = Command::new(program)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed("start a client process"))?;
        let lost = || BenchError::Failed("a client process has no input or output".to_owned());
        let (input, output) = (process.stdin.take().ok_or_else(lost)?, process.stdout.take().ok_or_else(lost)?);
        let output = BufReader::new(output).lines();
        let mut child = Self {
            _process: process,
            input,
            output,
            so_far: Second::default(),
            finished: false,
            heard: Instant::now(),
        };
        child.write(job).await?;
        match child.answer().await? {
            Answer::Ready => Ok(child),
            other => Err(BenchError::Failed(format!("a client process began with {other:?}"))),
        }
    }

    async fn write(&mut self, line: &impl Serialize) -> Result<(), BenchError> {
        write_line(&mut self.input, line).await.map_err(failed("tell a client process"))
    }

    pub(crate) async fn order(&mut self, order: Order) -> Result<(), BenchError> {
        self.write(&order).await
    }

    /// Reads the child's next line.
    async fn answer(&mut self) -> Result<Answer, BenchError> {
        match timeout(SILENCE, read_line(&mut self.output)).await {
            Err(_) => Err(silent()),
            Ok(Err(error)) => Err(failed("hear from a client process")(error)),
            Ok(Ok(None)) => Err(BenchError::Failed("a client process ended early".to_owned())),
            Ok(Ok(Some(Answer::Failed(reason)))) => Err(BenchError::Failed(reason)),
            Ok(Ok(Some(answer))) => Ok(answer),
        }
    }

    /// The progress that the child has reported by now.
    pub(crate) fn progress(&mut self) -> Result<(Second, bool), BenchError> {
        while let Some(answer) = self.answer().now_or_never() {
            if let Answer::Progress { so_far, finished } = answer? {
                (self.so_far, self.finished, self.heard) = (so_far, finished, Instant::now());
            }
        }
        match self.heard.elapsed() > SILENCE {
            true => Err(silent()),
            false => Ok((self.so_far, self.finished)),
        }
    }

    /// Waits for the end of the child.
    pub(crate) async fn finish(mut self) -> Result<JobResult, BenchError> {
        loop {
            if let Answer::Done(result) = self.answer().await? {
                return Ok(*result);
            }
        }
    }
}

/// The child's side: runs the part that its input describes. The exit status says whether that went
/// well.
///
/// # Errors
/// Input or output that is not the parent's. Failures of the part are reported to the parent.
pub async fn run_part() -> Result<(), BenchError> {
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let job: Option<Job> = read_line(&mut input).await.map_err(failed("read the job"))?;
    let Some(job) = job else { return Err(BenchError::Refused("a job is expected on the input".to_owned())) };
    let end = match work(&job, &mut input).await {
        Ok(result) => Answer::Done(Box::new(result)),
        Err(error) => Answer::Failed(error.to_string()),
    };
    tell(&end).await
}

async fn work(job: &Job, input: &mut Lines<BufReader<Stdin>>) -> Result<JobResult, BenchError> {
    let mut part = Part::start(job).await?;
    tell(&Answer::Ready).await?;
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            order = read_line::<Order, _>(input) => match order.map_err(failed("read an order"))? {
                Some(Order::Measure) => part.measure(),
                Some(Order::Stop) => {
                    part.stop();
                    return part.finish().await;
                }
                None => return Err(BenchError::Failed("the parent process ended".to_owned())),
            },
            _ = tick.tick() => {
                let (so_far, finished) = part.progress()?;
                tell(&Answer::Progress { so_far, finished }).await?;
            }
        }
    }
}

async fn tell(answer: &Answer) -> Result<(), BenchError> {
    write_line(&mut tokio::io::stdout(), answer).await.map_err(failed("tell the parent process"))
}

async fn write_line(output: &mut (impl AsyncWriteExt + Unpin), line: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    output.write_all(&text).await?;
    output.flush().await
}

/// `Lines::next_line` loses nothing when it is dropped before it is ready.
async fn read_line<T: DeserializeOwned, R: AsyncRead + Unpin>(
    lines: &mut Lines<BufReader<R>>,
) -> std::io::Result<Option<T>> {
    match lines.next_line().await? {
        Some(line) => Ok(Some(serde_json::from_str(&line)?)),
        None => Ok(None),
    }
}

fn silent() -> BenchError {
    BenchError::Failed(format!("a client process was silent for {} s", SILENCE.as_secs()))
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> BenchError {
    move |error| BenchError::Failed(format!("cannot {what}: {error}"))
}
