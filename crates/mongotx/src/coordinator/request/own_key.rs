//! The identity of a document's `_id`, for comparisons: equal numbers of different types name the
//! same document.

use bson::{Bson, doc};

/// An `_id`, where numbers of different types are the same if they are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnKey {
    Whole(i64),
    Bytes(Vec<u8>),
}

impl OwnKey {
    pub(crate) fn of(id: &Bson) -> Self {
        /// From here on, doubles cannot represent every whole number.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match id {
            Bson::Int32(number) => Self::Whole((*number).into()),
            Bson::Int64(number) => Self::Whole(*number),
            Bson::Double(number) if number.fract() == 0.0 && number.abs() < EXACT => Self::Whole(*number as i64),
            other => Self::Bytes(id_key(other)),
        }
    }

    /// Number of bytes that the key takes.
    pub(crate) fn count_bytes(&self) -> usize {
        match self {
            Self::Whole(_) => size_of::<i64>(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Of an `_id` that equals no other but what has the same key: `None` for decimals, fractions,
    /// and what may hold numbers. (Strings, where no collation is involved.)
    pub(crate) fn of_simple(id: &Bson) -> Option<Self> {
        let key = Self::of(id);
        match id {
            Bson::Double(_) if matches!(key, Self::Bytes(_)) => None,
            Bson::Int64(number) if number.unsigned_abs() >= 1 << 53 => None,
            Bson::Decimal128(_) | Bson::Document(_) | Bson::Array(_) | Bson::Symbol(_) => None,
            _ => Some(key),
        }
    }
}

/// Key that `_id`s share which the server takes for the same, and perhaps others: all numbers
/// count as doubles.
pub(crate) fn coarse_key(id: &Bson) -> Vec<u8> {
    id_key(&coarse(id))
}

fn coarse(value: &Bson) -> Bson {
    let number = match value {
        Bson::Int32(number) => f64::from(*number),
        Bson::Int64(number) => *number as f64,
        Bson::Double(number) => *number,
        Bson::Decimal128(number) => number.to_string().parse().unwrap_or(f64::NAN),
        Bson::Symbol(text) => return Bson::String(text.clone()),
        Bson::Array(items) => return items.iter().map(coarse).collect::<Vec<Bson>>().into(),
        Bson::Document(fields) => {
            return Bson::Document(fields.iter().map(|(name, value)| (name.clone(), coarse(value))).collect());
        }
        other => return other.clone(),
    };
    // The two zeros are equal, and so are all that are no number.
    Bson::Double(if number == 0.0 {
        0.0
    } else if number.is_nan() {
        f64::NAN
    } else {
        number
    })
}

/// The bytes that identify an `_id`.
pub(crate) fn id_key(id: &Bson) -> Vec<u8> {
    doc! {"": id.clone()}.to_vec().unwrap_or_default()
}
