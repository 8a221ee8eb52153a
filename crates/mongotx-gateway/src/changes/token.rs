//! Resume tokens: a place in the events of a deployment, as a client keeps it. Pure.
//!
//! `{_data: "82" NUMBER KIND ERA}`, in hexadecimal digits: 16 for the number, 2 for the kind, 24
//! for the era. Tokens of one era are in the order of their texts.

use bson::{Bson, Document, doc, oid::ObjectId};
use mongotx::Position;

use crate::failure::{Answer, Failure, codes};

const VERSION: &str = "82";
const LENGTH: usize = 44;

/// Kind of the event or batch that a token was delivered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A batch: every event up to there was delivered.
    Batch,
    Event,
    /// The end of a stream, which an event has brought about.
    Invalidate,
}

/// A place behind an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) position: Position,
    pub(crate) kind: Kind,
}

impl Token {
    /// The token in the form that clients get.
    pub(crate) fn to_document(self) -> Document {
        let kind = match self.kind {
            Kind::Batch => 0x10,
            Kind::Event => 0x20,
            Kind::Invalidate => 0x30,
        };
        doc! {"_data": format!("{VERSION}{:016X}{kind:02X}{}", self.position.number, self.position.era.to_hex().to_uppercase())}
    }

    /// # Errors
    /// 260 for what is no token of a gateway's.
    pub(crate) fn parse(token: &Document) -> Answer<Self> {
        Self::read(token).ok_or_else(|| {
            let message = format!("Invalid resume token: {token} was not made by this deployment's change streams");
            Failure::new(codes::INVALID_RESUME_TOKEN, message)
        })
    }

    /// The token that an event has as its `_id`.
    pub(crate) fn of_event(event: &Document) -> Option<Self> {
        event.get("_id").and_then(Bson::as_document).and_then(Self::read)
    }

    fn read(token: &Document) -> Option<Self> {
        let data = token.get_str("_data").ok().filter(|data| data.len() == LENGTH && data.is_ascii())?;
        let rest = data.strip_prefix(VERSION)?;
        let (number, rest) = rest.split_at(16);
        let (kind, era) = rest.split_at(2);
        let kind = match u8::from_str_radix(kind, 16).ok()? {
            0x10 => Kind::Batch,
            0x20 => Kind::Event,
            0x30 => Kind::Invalidate,
            _ => return None,
        };
        let position = Position { number: i64::from_str_radix(number, 16).ok()?, era: ObjectId::parse_str(era).ok()? };
        Some(Self { position, kind })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_are_written_and_ordered_as_the_events_are() {
        let era = ObjectId::new();
        let mut texts = Vec::new();
        for number in [0, 1, 9, 10, 255, 1 << 40, i64::MAX] {
            for kind in [Kind::Batch, Kind::Event, Kind::Invalidate] {
                let token = Token { position: Position { era, number }, kind };
                let written = token.to_document();
                assert_eq!(Token::parse(&written).unwrap(), token);
                texts.push(written.get_str("_data").unwrap().to_owned());
            }
        }
        assert!(texts.is_sorted());
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let good = Token { position: Position { era: ObjectId::new(), number: 1 }, kind: Kind::Event }.to_document();
        let good = good.get_str("_data").unwrap().to_owned();
        let strange = ["", "82", "ä", &good[1..], &format!("{good}0"), &good.replace("82", "83"), &"8".repeat(44)];
        for data in strange {
            assert_eq!(Token::parse(&doc! {"_data": data}).unwrap_err().code, 260, "{data}");
        }
        assert_eq!(Token::parse(&doc! {"x": 1}).unwrap_err().code, 260);
        assert_eq!(Token::parse(&doc! {"_data": 1}).unwrap_err().code, 260);
    }
}
