//! The gateway that is measured: `mongotx-bench bench-gateway`, hidden, a process of its own with
//! what `mongotx serve` has without further flags.

use std::time::Duration;

use clap::Args;
use mongotx::ClientOptions;
use mongotx_gateway::{Gateway, GatewayOptions};

use crate::{
    connect::{ServerOptions, with_selection_limit},
    failure::{Failure, Status, WELL},
    interrupt::Interrupts,
    open_files, say,
};

/// Time that running commands get at the end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Options of the command `mongotx-bench bench-gateway`.
#[derive(Args, Clone)]
pub(crate) struct MeasuredGatewayOptions {
    #[command(flatten)]
    server: ServerOptions,
}

/// Serves on a free port until a signal ends the process.
pub(crate) async fn run_measured_gateway(options: MeasuredGatewayOptions) -> Result<Status, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("bench-gateway: {error}"));
    let mut interrupts = Interrupts::catch()?;
    open_files::allow_most();
    let gateway = Gateway::start(gateway_options(&options.server)).await.map_err(|error| failed(&error))?;
    let address = gateway.address().ok_or_else(|| failed(&"it does not listen"))?;
    say::line(&format!("listening on mongodb://{address}"));
    interrupts.next().await;
    gateway.shutdown(END_LIMIT).await.map_err(|error| failed(&error))?;
    Ok(WELL)
}

fn gateway_options(server: &ServerOptions) -> GatewayOptions {
    GatewayOptions {
        uri: with_selection_limit(&server.uri),
        listen: Some(([127, 0, 0, 1], 0).into()),
        client: ClientOptions {
            tx_database: server.tx_database.clone(),
            count_commands: false,
            ..ClientOptions::default()
        },
        slow: Some(Duration::from_millis(100)),
        ..GatewayOptions::default()
    }
}
