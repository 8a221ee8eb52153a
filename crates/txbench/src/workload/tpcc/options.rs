//! Options of the workload TPC-C: size, layout, and how each transaction is written and run.

use std::str::FromStr;

use clap::{ArgAction, Args};
use serde::{Deserialize, Serialize};

use super::{how::How, kind::Kind, scale::Scale, schema::Schema};
use crate::targets::{Acknowledged, Durability, Isolation, TxOptions};

/// The options of TPC-C. Their defaults are the best configuration; without `--scale`,
/// `--rollback-percent` and with `--think-time 1` they are the specification's.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct TpccOptions {
    /// Number of warehouses
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub warehouses: u32,
    /// Part of a warehouse's customers, orders and items that is loaded; a run with less than 1 is
    /// marked as not TPC-C
    #[arg(long, default_value_t = 1.0, value_parser = part)]
    pub scale: f64,
    /// How the tables are laid out in collections
    #[arg(long, value_enum, default_value_t)]
    pub schema: Schema,
    /// Rows have random `_id`s, and are found by the fields of their primary keys, which have
    /// unique indexes
    #[arg(long)]
    pub natural_keys: bool,
    /// Read the fields that are used and no others
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub needed_fields: bool,
    /// Write before reading where possible, so that conflicts show early
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub writes_first: bool,
    /// Read and change a row by one operation, unless several are in a batch
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub find_and_modify: bool,
    /// Read, insert and update rows of a collection together
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub batch: bool,
    /// As paper 002 began: without --needed-fields, --writes-first, --find-and-modify and --batch
    #[arg(long)]
    pub as_published: bool,
    /// Percent of new orders that have a wrong item and are rolled back; other than 1 is not TPC-C.
    /// Without transactions they cannot be taken back
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub rollback_percent: u32,
    /// Factor on the specification's times for typing and thinking; 0: none
    #[arg(long, default_value_t = 0.0, value_parser = times)]
    pub think_time: f64,
    /// Another isolation for one kind of transaction: stock-level=read-committed
    #[arg(long, value_delimiter = ',', default_value = "stock-level=read-committed", value_name = "KIND=LEVEL")]
    pub tx_isolation: Vec<Override<Isolation>>,
    /// Another write concern for one kind of transaction: payment=1, delivery=majority,
    /// payment=1/unjournaled
    #[arg(long, value_delimiter = ',', value_name = "KIND=NODES")]
    pub tx_write_concern: Vec<Override<Durability>>,
    /// Chooses the constants of the distributions that are not uniform; all clients of a run need
    /// the same
    #[arg(long, default_value_t = 1)]
    pub constants_seed: u64,
}

/// An option for one kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override<T> {
    /// Kind of transaction that the value is for.
    pub kind: Kind,
    /// Value of the option for transactions of this kind.
    pub value: T,
}

impl TpccOptions {
    /// The size of the database.
    pub fn scale(&self) -> Scale {
        Scale::new(self.warehouses, self.scale)
    }

    /// Choices of these options about the way in which transactions are written.
    pub fn how(&self) -> How {
        let on = !self.as_published;
        How {
            schema: self.schema,
            needed_fields: on && self.needed_fields,
            writes_first: on && self.writes_first,
            find_and_modify: on && self.find_and_modify,
            batch: on && self.batch,
        }
    }

    /// Options of a transaction of this kind.
    pub fn transaction(&self, kind: Kind) -> TxOptions {
        TxOptions {
            durability: of(&self.tx_write_concern, kind),
            isolation: of(&self.tx_isolation, kind),
            ..TxOptions::default()
        }
    }
}

/// The last that was given for this kind.
fn of<T: Copy>(overrides: &[Override<T>], kind: Kind) -> Option<T> {
    overrides.iter().rev().find(|of| of.kind == kind).map(|of| of.value)
}

impl FromStr for Override<Isolation> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, level) = split(text)?;
        let value = <Isolation as clap::ValueEnum>::from_str(level, false).map_err(|_| {
            format!("{level:?} is no isolation: read-committed, repeatable-read, snapshot or serializable is expected")
        })?;
        Ok(Self { kind, value })
    }
}

impl FromStr for Override<Durability> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, concern) = split(text)?;
        let (nodes, journaled) = match concern.strip_suffix("/unjournaled") {
            Some(nodes) => (nodes, false),
            None => (concern, true),
        };
        let nodes = match (nodes, nodes.parse()) {
            ("majority", _) => Acknowledged::Majority,
            (_, Ok(nodes @ 1..=7)) => Acknowledged::Nodes(nodes),
            _ => return Err(format!("{nodes:?} is no write concern: a number from 1 to 7, or majority, is expected")),
        };
        Ok(Self { kind, value: Durability { nodes, journaled } })
    }
}

fn split(text: &str) -> Result<(Kind, &str), String> {
    let (kind, value) = text.split_once('=').ok_or_else(|| format!("KIND=VALUE is expected, not {text:?}"))?;
    Ok((kind.parse()?, value))
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part <= 1.0 => Ok(part),
        _ => Err("more than 0 and at most 1 is expected".to_owned()),
    }
}

fn times(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(times) if (0.0..=100.0).contains(&times) => Ok(times),
        _ => Err("a number from 0 to 100 is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: TpccOptions,
    }

    fn parse(args: &str) -> Result<TpccOptions, String> {
        let args = std::iter::once("tpcc").chain(args.split_whitespace());
        Command::try_parse_from(args).map(|command| command.options).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_the_specification_s_on_the_recommended_schema() {
        let options = parse("").unwrap();
        assert!(!options.scale().is_scaled());
        assert_eq!((options.rollback_percent, options.schema), (1, Schema::Recommended));
        let how = options.how();
        assert!(how.needed_fields && how.writes_first && how.find_and_modify && how.batch);
        assert_eq!(options.transaction(Kind::StockLevel).isolation, Some(Isolation::ReadCommitted));
        assert_eq!(options.transaction(Kind::NewOrder).isolation, None);
    }

    #[test]
    fn as_published_turns_all_four_off() {
        let how = parse("--as-published --batch true").unwrap().how();
        assert!(!how.needed_fields && !how.writes_first && !how.find_and_modify && !how.batch);
    }

    #[test]
    fn a_kind_may_have_its_own_isolation_and_write_concern() {
        let options =
            parse("--tx-isolation payment=repeatable-read --tx-write-concern delivery=1/unjournaled,payment=3");
        let options = options.unwrap();
        assert_eq!(options.transaction(Kind::Payment).isolation, Some(Isolation::RepeatableRead));
        let unjournaled = Durability { nodes: Acknowledged::Nodes(1), journaled: false };
        assert_eq!(options.transaction(Kind::Delivery).durability, Some(unjournaled));
        let three = Durability { nodes: Acknowledged::Nodes(3), journaled: true };
        assert_eq!(options.transaction(Kind::Payment).durability, Some(three));
    }

    #[test]
    fn wrong_values_are_refused_by_the_option_s_name() {
        for (args, option) in [
            ("--scale 0", "--scale"),
            ("--scale 2", "--scale"),
            ("--think-time -1", "-1"),
            ("--tx-isolation payment=chaos", "chaos"),
            ("--tx-isolation refund=read-committed", "refund"),
            ("--tx-write-concern payment=0", "--tx-write-concern"),
            ("--warehouses 0", "--warehouses"),
        ] {
            let said = parse(args).expect_err(args);
            assert!(said.contains(option), "{args}: {said}");
        }
    }

    #[test]
    fn options_survive_being_sent_to_a_worker_process() {
        let options = parse("--scale 0.5 --tx-write-concern payment=1").unwrap();
        let sent = serde_json::to_string(&options).unwrap();
        let received: TpccOptions = serde_json::from_str(&sent).unwrap();
        assert_eq!(serde_json::to_string(&received).unwrap(), sent);
    }
}
