//! Names of clients and transactions.
//!
//! A transaction is the pair (client, sequence number); each client makes its own, so that no server has to be
//! asked (paper 001, section 3.2).

use std::{fmt, str::FromStr};

/// A client: one live library instance or gateway and the record it owns in `txs`. Twelve bytes, as an ObjectId.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub [u8; 12]);

/// The number of a transaction within its client: 1, 2, 3, … in the order in which they first wrote.
pub type Seq = u64;

/// A transaction, unique for ever: no client id and no number is used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxId {
    /// Who runs it.
    pub client: ClientId,
    /// Which of that client's transactions it is.
    pub seq: Seq,
}

/// The text is not a transaction id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a transaction id: expected 24 hexadecimal digits, a dot and a number, as in 65a1f0c2b3d4e5f601234567.42"
)]
pub struct ParseTxIdError(String);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.client, self.seq)
    }
}

impl fmt::Debug for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ClientId {
    type Err = ParseTxIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseTxIdError(text.to_owned());
        if text.len() != 24 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut bytes = [0; 12];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

impl FromStr for TxId {
    type Err = ParseTxIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseTxIdError(text.to_owned());
        let (client, seq) = text.split_once('.').ok_or_else(bad)?;
        let seq = seq.parse().ok().filter(|n| (1..=i64::MAX as u64).contains(n));
        Ok(Self { client: client.parse().map_err(|_| bad())?, seq: seq.ok_or_else(bad)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tx_id_displayed_and_parsed_is_the_same() {
        let id = TxId { client: ClientId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255]), seq: 42 };
        assert_eq!(id.to_string(), "000102030405060708090aff.42");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn tx_id_malformed_is_refused() {
        for text in [
            "",
            "x",
            "000102030405060708090aff",
            "000102030405060708090aff.0",
            "000102030405060708090aff.-1",
            "000102030405060708090aff.9223372036854775808",
            "00010203040506070809é1f.1",
            "+00102030405060708090aff.1",
        ] {
            assert!(text.parse::<TxId>().is_err(), "{text:?}");
        }
    }
}
