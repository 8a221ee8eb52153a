//! An operation as the JSON files hold it: two shapes, with the field names of paper 003, listings
//! 1 and 2. The second lacks its closing brace there, and has a fraction: amounts are numbers with
//! up to two decimals.

use serde::{Deserialize, Serialize};

use super::{
    accounts::Accounts,
    money::Money,
    operation::{Change, Operation},
};

/// An operation as it is written, with the balances after it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Record {
    /// Listing 1: a deposit or a withdrawal.
    Single {
        #[serde(rename = "ACCOUNT NO")]
        account: String,
        /// Always null for these operations.
        #[serde(rename = "DESTINATION ACCOUNT")]
        destination: Option<String>,
        #[serde(rename = "SEQUENCE")]
        sequence: i64,
        #[serde(rename = "WITHDRAWAL AMT")]
        withdrawal: Money,
        #[serde(rename = "DEPOSIT AMT")]
        deposit: Money,
        #[serde(rename = "BALANCE AMT")]
        balance: Money,
    },
    /// The record of a transfer, as in listing 2.
    Transfer {
        #[serde(rename = "ORIGIN ACCOUNT")]
        origin: String,
        #[serde(rename = "DESTINATION ACCOUNT")]
        destination: String,
        #[serde(rename = "SEQUENCE")]
        sequence: i64,
        #[serde(rename = "TRANSFER AMT")]
        amount: Money,
        #[serde(rename = "BALANCE Origin Account")]
        origin_balance: Money,
        #[serde(rename = "BALANCE Destination Account")]
        destination_balance: Money,
    },
}

/// An operation of either shape as it is read. Balances are not: they say what was so when the
/// operations were made one after the other, and nothing about a replay by several clients but
/// where it ends.
#[derive(Debug, Deserialize)]
pub(super) struct AnyRecord {
    #[serde(rename = "ACCOUNT NO")]
    account: Option<String>,
    #[serde(rename = "ORIGIN ACCOUNT")]
    origin: Option<String>,
    #[serde(rename = "DESTINATION ACCOUNT")]
    destination: Option<String>,
    #[serde(rename = "SEQUENCE")]
    sequence: i64,
    #[serde(rename = "WITHDRAWAL AMT", default)]
    withdrawal: Money,
    #[serde(rename = "DEPOSIT AMT", default)]
    deposit: Money,
    #[serde(rename = "TRANSFER AMT", default)]
    transfer: Money,
}

impl AnyRecord {
    /// The operation; the text says what is wrong.
    pub(super) fn operation(&self, accounts: &Accounts, last_sequence: i64) -> Result<Operation, String> {
        if !(1..=last_sequence).contains(&self.sequence) {
            return Err(format!("SEQUENCE is {}, from 1 to {last_sequence} is allowed", self.sequence));
        }
        let find = |number: &str| accounts.ordinal(number).ok_or_else(|| format!("there is no account {number}"));
        let change = match (&self.account, &self.origin, &self.destination) {
            (Some(account), None, None) => {
                let account = find(account)?;
                match (self.withdrawal, self.deposit) {
                    (Money(0), amount) => Change::Deposit { account, amount: amount_of("DEPOSIT AMT", amount)? },
                    (amount, Money(0)) => Change::Withdrawal { account, amount: amount_of("WITHDRAWAL AMT", amount)? },
                    _ => return Err("one of WITHDRAWAL AMT and DEPOSIT AMT must be 0".to_owned()),
                }
            }
            (None, Some(origin), Some(destination)) if origin != destination => {
                let amount = amount_of("TRANSFER AMT", self.transfer)?;
                Change::Transfer { from: find(origin)?, to: find(destination)?, amount }
            }
            (None, Some(origin), Some(_)) => return Err(format!("a transfer from {origin} to itself")),
            _ => {
                let expected = "ACCOUNT NO, or ORIGIN ACCOUNT and DESTINATION ACCOUNT";
                return Err(format!("either {expected} must be there"));
            }
        };
        Ok(Operation { sequence: self.sequence, change })
    }
}

fn amount_of(field: &str, amount: Money) -> Result<Money, String> {
    match amount > Money(0) && amount <= Money::LARGEST {
        true => Ok(amount),
        false => Err(format!("{field} is {amount}, more than 0 and at most {} is allowed", Money::LARGEST)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Operation, String> {
        let record: AnyRecord = serde_json::from_str(json).map_err(|error| error.to_string())?;
        record.operation(&Accounts::Counted(10), 1_000_000)
    }

    #[test]
    fn both_shapes_have_the_fields_of_the_paper_in_its_order() {
        let single = Record::Single {
            account: "409000405747".to_owned(),
            destination: None,
            sequence: 2941,
            withdrawal: Money(3_000_000_000),
            deposit: Money(0),
            balance: Money(20_000_000_000),
        };
        assert_eq!(
            serde_json::to_string(&single).unwrap(),
            r#"{"ACCOUNT NO":"409000405747","DESTINATION ACCOUNT":null,"SEQUENCE":2941,"WITHDRAWAL AMT":30000000,"DEPOSIT AMT":0,"BALANCE AMT":200000000}"#
        );
        let transfer = Record::Transfer {
            origin: "409000405747".to_owned(),
            destination: "1196428".to_owned(),
            sequence: 202_940,
            amount: Money(17_000_000),
            origin_balance: Money(-18_956_734_800),
            destination_balance: Money(23_701_172_161),
        };
        assert_eq!(
            serde_json::to_string(&transfer).unwrap(),
            r#"{"ORIGIN ACCOUNT":"409000405747","DESTINATION ACCOUNT":"1196428","SEQUENCE":202940,"TRANSFER AMT":170000,"BALANCE Origin Account":-189567348,"BALANCE Destination Account":237011721.61}"#
        );
    }

    #[test]
    fn both_shapes_are_read() {
        let withdrawal = r#"{"ACCOUNT NO": "409000405747", "DESTINATION ACCOUNT": null, "SEQUENCE": 2941,
            "WITHDRAWAL AMT": 30000000, "DEPOSIT AMT": 0, "BALANCE AMT": 200000000}"#;
        let expected = Change::Withdrawal { account: 3, amount: Money(3_000_000_000) };
        assert_eq!(read(withdrawal), Ok(Operation { sequence: 2941, change: expected }));
        let transfer = r#"{"ORIGIN ACCOUNT": "409000405747", "DESTINATION ACCOUNT": "1196428", "SEQUENCE": 202940,
            "TRANSFER AMT": 170000.5, "BALANCE Origin Account": -189567348, "BALANCE Destination Account": 237011721.61}"#;
        let expected = Change::Transfer { from: 3, to: 8, amount: Money(17_000_050) };
        assert_eq!(read(transfer), Ok(Operation { sequence: 202_940, change: expected }));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_the_field() {
        for (json, said) in [
            (r#"{"ACCOUNT NO": "1", "SEQUENCE": 1, "DEPOSIT AMT": 5}"#, "no account 1"),
            (r#"{"ACCOUNT NO": "1196711", "SEQUENCE": 0, "DEPOSIT AMT": 5}"#, "SEQUENCE is 0"),
            (r#"{"ACCOUNT NO": "1196711", "SEQUENCE": 1}"#, "DEPOSIT AMT is 0"),
            (r#"{"ACCOUNT NO": "1196711", "SEQUENCE": 1, "WITHDRAWAL AMT": -5}"#, "WITHDRAWAL AMT is -5"),
            (r#"{"ACCOUNT NO": "1196711", "SEQUENCE": 1, "WITHDRAWAL AMT": 5, "DEPOSIT AMT": 5}"#, "must be 0"),
            (r#"{"ACCOUNT NO": "1196711", "SEQUENCE": 1, "DEPOSIT AMT": 0.001}"#, "0.001 is no amount"),
            (r#"{"ORIGIN ACCOUNT": "1196711", "SEQUENCE": 1, "TRANSFER AMT": 5}"#, "ORIGIN ACCOUNT and DESTINATION"),
            (
                r#"{"ORIGIN ACCOUNT": "1196711", "DESTINATION ACCOUNT": "1196711", "SEQUENCE": 1, "TRANSFER AMT": 5}"#,
                "itself",
            ),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(said), "{json}: {error}");
        }
    }
}
