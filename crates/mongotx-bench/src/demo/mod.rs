//! `mongotx-bench demo`: what MongoTx promises, on a real server, under SIGKILL.
//!
//! 1. [`stage`]: a standalone mongod of its own (or a fresh database on a given server).
//! 2. [`native`]: that server refuses native transactions.
//! 3. [`payment`]: the payment procedure of paper 000, figure 4.
//! 4. [`bank`]: [`worker`] processes move money while the [`crew`]'s master kills some and starts
//!    others.
//! 5. [`check`]: nothing was lost, doubled, half done or left behind.
//!
//! With `--web` a page shows all of it in a browser ([`web`], of what is in [`live`]).
//!
//! Interrupted anywhere, or failed: the workers are killed first, then the database or the server
//! goes.

mod accounts;
mod bank;
mod check;
mod crew;
mod live;
mod native;
mod payment;
mod progress;
mod report;
mod stage;
mod tally;
mod web;
mod wire;
pub(crate) mod worker;

use std::{net::SocketAddr, time::Duration};

use clap::Args;

use self::{live::Phase, stage::Stage, web::Web};
use crate::{
    failure::{Failure, Status, WELL, WRONG},
    interrupt::Interrupts,
};

/// Options of the command `mongotx-bench demo`.
#[derive(Args, Clone)]
pub(crate) struct DemoOptions {
    /// Time for which the bank runs, in seconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Number of worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Seconds between two kills, on average; 0: no kills
    #[arg(long, value_name = "SECONDS", default_value = "1.5", value_parser = kill_pause)]
    kill_every: Duration,
    /// A running server to use instead of one that the demo starts; the demo makes a database there
    /// and drops it afterwards
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
    /// Number of accounts of the bank
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    accounts: u32,
    /// Seed of the payments and of the kills; the timing of processes is not decided by it
    /// [default: a new one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Shows it in a browser as well, on an address of this machine, by default on a free port of
    /// 127.0.0.1
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0", value_parser = web::loopback)]
    web: Option<SocketAddr>,
    /// For tests: one worker changes a balance behind MongoTx's back
    #[arg(long, hide = true)]
    tamper: bool,
}

fn kill_pause(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected 0 (no kills) or a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// Runs the command `mongotx-bench demo`.
pub(crate) async fn run_demo(options: DemoOptions) -> Result<Status, Failure> {
    let mut interrupts = Interrupts::catch()?;
    let mut stage = Stage::default();
    let outcome = tokio::select! {
        outcome = play(&options, &mut stage) => outcome,
        interrupted = interrupts.next() => Err(interrupted),
    };
    let cleared = stage.clear().await;
    let healthy = outcome?;
    cleared?;
    Ok(if healthy { WELL } else { WRONG })
}

/// The whole demo, in the terminal and on the page. True: all promises were kept.
async fn play(options: &DemoOptions, stage: &mut Stage) -> Result<bool, Failure> {
    let live = stage.live.clone();
    let _web = match options.web {
        Some(address) => Some(Web::serve(address, live.clone()).await?),
        None => None,
    };
    let outcome = act(options, stage).await;
    match &outcome {
        Ok(true) => live.enter(Phase::Kept),
        Ok(false) => live.enter(Phase::Broken),
        Err(failure) => live.fail(&failure.to_string()),
    }
    live.wait_until_seen().await;
    outcome
}

/// Steps 1 to 5. True: all promises were kept.
async fn act(options: &DemoOptions, stage: &mut Stage) -> Result<bool, Failure> {
    stage.live.line("1. A server without transactions");
    stage.set(options.uri.as_deref()).await?;
    native::show_refusal(stage).await?;

    stage.live.line("\n2. The payment procedure of figure 4, through MongoTx");
    let payment = payment::show(stage).await?;

    let seed = options.seed.unwrap_or_else(rand::random);
    stage.live.line("\n3. A bank");
    let run = bank::run_bank(options, seed, stage).await?;

    stage.live.enter(Phase::Checks);
    stage.live.line("\n4. What is left of it");
    let mut verdict = check::check(options, stage, run).await?;
    verdict.add_first("the payment of figure 4 was all or nothing for everybody", payment);
    Ok(report::tell(&verdict, seed, &stage.live))
}
