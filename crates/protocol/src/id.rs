//! Names of clients and transactions.
//!
//! A transaction is the pair (client, sequence number); each client makes its own, without a call
//! to a server (paper 001, section 3.2).

use std::{fmt, str::FromStr};

/// A client: one live library instance or gateway and the record it owns in `txs`. Twelve bytes, as
/// an ObjectId: four for the time when it registered, three for the database that its record is in,
/// five at random.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub [u8; 12]);

/// Three bytes that identify the database of a client's record. A client that finds no record of
/// another client learns from that client's id whether it looked in the right database.
pub type DatabaseTag = [u8; 3];

/// The tag of a database: FNV-1a of 32 bits over the name's bytes, its top byte folded onto its
/// lowest. Ids are stored, so it never changes.
pub fn database_tag(name: &str) -> DatabaseTag {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [top, high, middle, low] = hash.to_be_bytes();
    [high, middle, low ^ top]
}

/// The name of a collection in a record's change stamps: its hash in eight hexadecimal digits. Two
/// collections of one name seem to change together, which costs a look more and nothing else. Tags
/// are stored, so they never change.
pub fn collection_tag(full_name: &str) -> String {
    format!("{:08x}", folded(stored_hash(full_name.as_bytes())))
}

/// The number that [`collection_tag`] writes, of the collection `coll` of the database `db`.
pub fn collection_number(db: &str, coll: &str) -> u32 {
    folded(hash_of([db.as_bytes(), b".", coll.as_bytes()].into_iter().flatten()))
}

fn folded(hash: u64) -> u32 {
    ((hash >> 32) ^ (hash & 0xffff_ffff)) as u32
}

/// FNV-1a of 64 bits. What is stored rests on it, so it never changes.
pub fn stored_hash(bytes: &[u8]) -> u64 {
    hash_of(bytes)
}

fn hash_of<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u64 {
    let (start, prime) = (0xcbf2_9ce4_8422_2325_u64, 0x0100_0000_01b3_u64);
    bytes.into_iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(prime))
}

impl ClientId {
    /// The id of a new client. `made`: seconds since 1970, by the clock that judges how long
    /// records are kept.
    pub fn compose(made: u32, tag: DatabaseTag, random: [u8; 5]) -> Self {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&made.to_be_bytes());
        bytes[4..7].copy_from_slice(&tag);
        bytes[7..].copy_from_slice(&random);
        Self(bytes)
    }

    /// Time at which the client registered, in seconds since 1970.
    pub fn made(self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }

    /// The tag of the database that its record is in.
    pub fn tag(self) -> DatabaseTag {
        let [_, _, _, _, a, b, c, ..] = self.0;
        [a, b, c]
    }
}

/// The number of a transaction within its client: 1, 2, 3, … in the order in which they first
/// wrote.
pub type Seq = u64;

/// A transaction, unique for ever: no client id and no number is used twice.
///
/// ```
/// use protocol::TxId;
///
/// let id: TxId = "000102030405060708090aff.42".parse()?;
/// assert_eq!(id.seq, 42);
/// assert_eq!(id.to_string(), "000102030405060708090aff.42");
/// # Ok::<(), protocol::id::ParseTxIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxId {
    /// The client that runs the transaction.
    pub client: ClientId,
    /// Number of the transaction among those of its client.
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
    fn stored_hash_is_stored_and_never_changes() {
        assert_eq!(stored_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stored_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(stored_hash(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(collection_tag("a"), "296230c0");
        assert_eq!(collection_tag("d.c.e"), format!("{:08x}", collection_number("d", "c.e")));
    }

    #[test]
    fn tx_id_displayed_and_parsed_is_the_same() {
        let id = TxId { client: ClientId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255]), seq: 42 };
        assert_eq!(id.to_string(), "000102030405060708090aff.42");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn client_id_tells_time_and_database() {
        let id = ClientId::compose(0x65a1_f0c2, database_tag("mongotx"), [1, 2, 3, 4, 5]);
        assert_eq!((id.made(), id.tag()), (0x65a1_f0c2, database_tag("mongotx")));
        assert!(id.to_string().starts_with("65a1f0c2") && id.to_string().ends_with("0102030405"), "{id}");
    }

    /// Stored ids have them: they stay.
    #[test]
    fn database_tag_is_what_it_always_was() {
        assert_eq!(database_tag(""), [0x1c, 0x9d, 0xc5 ^ 0x81]);
        assert_eq!(database_tag("mongotx"), [0x35, 0x91, 0x6f]);
        assert_ne!(database_tag("mongotx"), database_tag("other"));
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
