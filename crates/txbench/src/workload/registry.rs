//! All workloads. A new one is a folder beside this file, with its options in it, and a line
//! below.

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

pub use super::WorkloadOptions;
use super::{Workload, bank, checkin, hotspot, tpcc, transfer, ycsb};
use crate::error::BenchError;

/// The arguments of one workload's command: its own and those of every run, `R`.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs<W: WorkloadOptions + Clone, R: Args + Clone> {
    /// Options that this workload has and others do not.
    #[command(flatten)]
    pub workload: W,
    /// Options that every workload's run has.
    #[command(flatten)]
    pub run: R,
}

macro_rules! workloads {
    ($($(#[$doc:meta])* $name:ident($module:ident::$options:ident),)*) => {
        /// A workload with its options.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum WorkloadSpec {
            $($(#[$doc])* $name($module::$options),)*
        }

        impl WorkloadSpec {
            /// Makes the workload that these options describe.
            ///
            /// # Errors
            /// As [`WorkloadOptions::make`].
            pub fn make(&self) -> Result<Box<dyn Workload>, BenchError> {
                match self { $(Self::$name(options) => options.make(),)* }
            }
        }

        /// The command of a workload, with the arguments `R` of every run.
        #[derive(Clone, Debug, Subcommand)]
        pub enum WorkloadCommand<R: Args + Clone> {
            $($(#[$doc])* $name(Box<BenchArgs<$module::$options, R>>),)*
        }

        impl<R: Args + Clone> WorkloadCommand<R> {
            /// The workload, and how to run it.
            pub fn split(self) -> (WorkloadSpec, R) {
                match self { $(Self::$name(args) => (WorkloadSpec::$name(args.workload), args.run),)* }
            }
        }
    };
}

workloads! {
    /// Deposits, withdrawals and transfers of a bank, replayed, with every balance checked
    Bank(bank::BankOptions),
    /// Check-ins: searches by distance, and the nearest point updated
    Checkin(checkin::CheckinOptions),
    /// Transfers between two accounts, chosen at random
    Transfer(transfer::TransferOptions),
    /// Increments of a few documents that all clients want
    HotSpot(hotspot::HotSpotOptions),
    /// YCSB: reads, updates, inserts and range reads, several in a transaction
    Ycsb(ycsb::YcsbOptions),
    /// Orders, payments and deliveries of a wholesale supplier (TPC-C)
    Tpcc(tpcc::TpccOptions),
}
