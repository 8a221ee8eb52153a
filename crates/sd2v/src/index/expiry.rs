//! Decides whether a TTL index removes a stored document, as the server does.

use bson::{Bson, Document, doc};

use super::Index;
use crate::filter::guard_filter;

/// The rule by which the server removes documents for a TTL index.
#[derive(Clone, Debug, PartialEq)]
pub struct Expiry {
    field: String,
    after_ms: i64,
    partial: Document,
}

impl Expiry {
    /// Expiry of the application's index, if it is a TTL index that removes anything.
    pub(super) fn of(spec: &Document) -> Option<Self> {
        let seconds = match spec.get("expireAfterSeconds")? {
            Bson::Int32(seconds) => i64::from(*seconds),
            Bson::Int64(seconds) => *seconds,
            Bson::Double(seconds) if seconds.is_finite() => *seconds as i64,
            _ => return None,
        };
        let field = spec.get_document("key").ok()?.keys().next()?.clone();
        let partial = spec.get_document("partialFilterExpression").cloned().unwrap_or_default();
        Some(Self { field, after_ms: seconds.saturating_mul(1_000), partial })
    }

    /// The condition that the safe version of a document is to be removed, by the server's clock.
    /// Of several dates in an array the earliest counts, as in the index.
    pub fn is_over(&self) -> Document {
        let limit = doc! {"$subtract": ["$$NOW", self.after_ms]};
        let is_over = |date: &str| doc! {"$and": [{"$eq": [{"$type": date}, "date"]}, {"$lte": [date, "$$limit"]}]};
        let any = doc! {"$anyElementTrue": [{"$map": {"input": "$$dates", "in": is_over("$$this")}}]};
        let over = doc! {"$cond": [{"$isArray": "$$dates"}, any, is_over("$$dates")]};
        let dates = format!("${}", self.field);
        let asked = doc! {"$expr": {"$let": {"vars": {"dates": dates, "limit": limit}, "in": over}}};
        if self.partial.is_empty() {
            asked
        } else {
            doc! {"$and": [guard_filter(&self.partial), asked]}
        }
    }
}

impl Index {
    /// The expiry of a TTL index.
    pub fn expiry(&self) -> Option<Expiry> {
        Expiry::of(&self.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_numbers_expire() {
        let of = |seconds: Bson| Expiry::of(&doc! {"key": {"at": 1}, "expireAfterSeconds": seconds});
        assert_eq!(of(5.into()).map(|expiry| expiry.after_ms), Some(5_000));
        assert_eq!(of(Bson::Double(1.5)).map(|expiry| expiry.after_ms), Some(1_000));
        assert_eq!((of(f64::NAN.into()), of("x".into())), (None, None));
        assert_eq!(Expiry::of(&doc! {"key": {"at": 1}}), None);
    }
}
