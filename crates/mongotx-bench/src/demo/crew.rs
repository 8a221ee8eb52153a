//! The worker processes: starting them, reading their reports, killing and ending them.

use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc::UnboundedSender,
    task::JoinHandle,
    time::timeout,
};

use super::wire::WorkerLine;
use crate::failure::{Context, Failure};

/// Time that a worker may take to end by itself.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// Name of a worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkerName {
    /// Number of the worker.
    pub(super) number: u32,
    /// Number of its earlier starts.
    pub(super) incarnation: u32,
}

/// A message of a worker, or the end of its messages.
pub(super) enum WorkerMessage {
    /// A line that the worker has written.
    Line(WorkerLine),
    /// A line that is none.
    Nonsense(String),
    /// The end of the worker's output.
    Silence,
}

/// Arguments with which workers are started.
#[derive(Clone)]
pub(super) struct WorkerArguments {
    pub(super) uri: String,
    pub(super) arguments: Vec<String>,
    pub(super) ears: UnboundedSender<(WorkerName, WorkerMessage)>,
}

struct Worker {
    name: WorkerName,
    child: Child,
    input: ChildStdin,
    reader: JoinHandle<()>,
}

/// All workers. Dropping it kills them.
#[derive(Default)]
pub(super) struct Crew {
    workers: Vec<Worker>,
}

impl Crew {
    /// Starts another worker process.
    pub(super) async fn start(
        &mut self,
        orders: &WorkerArguments,
        name: WorkerName,
        task: &str,
    ) -> Result<(), Failure> {
        let worker = Worker::start(orders, name, task).await.context("a worker process could not be started")?;
        self.workers.push(worker);
        Ok(())
    }

    /// Kills a worker (SIGKILL) and starts its next incarnation, whose name it returns. `nth` may
    /// be any number.
    pub(super) async fn replace(
        &mut self,
        orders: &WorkerArguments,
        nth: usize,
        task: &str,
    ) -> Result<Option<WorkerName>, Failure> {
        let at = nth % self.workers.len().max(1);
        let Some(worker) = self.workers.get_mut(at) else { return Ok(None) };
        worker.kill().await;
        let next = WorkerName { incarnation: worker.name.incarnation + 1, ..worker.name };
        *worker = Worker::start(orders, next, task).await.context("a worker process could not be started")?;
        Ok(Some(worker.name))
    }

    /// Requests all workers to end and waits for them. Returns those that failed, with the reason.
    pub(super) async fn stop_all(&mut self) -> Vec<(WorkerName, String)> {
        for worker in &mut self.workers {
            // A worker that has ended already cannot be reached; its exit status is read below.
            let _ = worker.input.write_all(b"stop\n").await;
        }
        let mut badly = Vec::new();
        for mut worker in self.workers.drain(..) {
            match timeout(STOP_LIMIT, worker.child.wait()).await {
                Ok(Ok(status)) if status.success() => {}
                Ok(ended) => badly.push((worker.name, how(ended))),
                Err(_) => badly.push((worker.name, format!("it did not end within {STOP_LIMIT:?}"))),
            }
            worker.kill().await;
        }
        badly
    }

    /// Ends all workers at once.
    pub(super) async fn kill_all(&mut self) {
        for mut worker in self.workers.drain(..) {
            worker.kill().await;
        }
    }

    /// Returns true if reports of this worker are still to come.
    pub(super) fn has(&self, name: WorkerName) -> bool {
        self.workers.iter().any(|worker| worker.name == name)
    }
}

fn how(ended: std::io::Result<ExitStatus>) -> String {
    match ended {
        Ok(status) => format!("it ended by itself: {status}"),
        Err(error) => format!("it was lost: {error}"),
    }
}

impl Worker {
    async fn start(orders: &WorkerArguments, name: WorkerName, task: &str) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("demo-worker")
            .args(&orders.arguments)
            .args(["--worker", &name.number.to_string(), "--incarnation", &name.incarnation.to_string()])
            .args(["--task", task])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the demo alone, which then ends its workers.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("no pipes"));
        };
        // A worker that is gone already is noticed by its silence.
        let _ = input.write_all(format!("{}\n", orders.uri).as_bytes()).await;
        let reader = tokio::spawn(listen(name, output, orders.ears.clone()));
        Ok(Self { name, child, input, reader })
    }

    /// Kills the worker, unless it has ended, and reads the rest of its reports.
    async fn kill(&mut self) {
        let _ = self.child.kill().await;
        let _ = (&mut self.reader).await;
    }
}

/// Passes on whole lines: what has no line end was cut off by a kill.
async fn listen(name: WorkerName, output: ChildStdout, ears: UnboundedSender<(WorkerName, WorkerMessage)>) {
    let mut output = BufReader::new(output);
    let mut text = String::new();
    while matches!(output.read_line(&mut text).await, Ok(n) if n > 0) && text.ends_with('\n') {
        let heard = text
            .trim_end()
            .parse()
            .map_or_else(|_| WorkerMessage::Nonsense(text.trim_end().to_owned()), WorkerMessage::Line);
        if ears.send((name, heard)).is_err() {
            return;
        }
        text.clear();
    }
    let _ = ears.send((name, WorkerMessage::Silence));
}
