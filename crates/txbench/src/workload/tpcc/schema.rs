//! How the nine tables are laid out in collections, and which indexes the transactions need.

use bson::{Document, doc};
use serde::{Deserialize, Serialize};

use crate::target::Index;

/// Warehouses.
pub const WAREHOUSE: &str = "warehouse";
/// Districts.
pub const DISTRICT: &str = "district";
/// Customers.
pub const CUSTOMER: &str = "customer";
/// Payments.
pub const HISTORY: &str = "history";
/// Orders.
pub const ORDER: &str = "order";
/// Orders that are not delivered.
pub const NEW_ORDER: &str = "new_order";
/// Order lines.
pub const ORDER_LINE: &str = "order_line";
/// Items.
pub const ITEM: &str = "item";
/// What warehouses have of items.
pub const STOCK: &str = "stock";

/// The layouts that paper 002 compares. Money is in cents; taxes and discounts are in hundredths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Schema {
    /// A collection for each of the nine tables
    Normalized,
    /// Orders, their lines and payments inside the customer: documents that grow for ever, an anti-pattern
    Denormalized,
    /// Order lines inside the order
    #[default]
    Recommended,
}

impl Schema {
    /// As `--schema` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normalized => "normalized",
            Self::Denormalized => "denormalized",
            Self::Recommended => "recommended",
        }
    }

    /// Its collections with their indexes.
    pub fn collections(self) -> Vec<(&'static str, Vec<Index>)> {
        let by_name = index(doc! {"C_W_ID": 1, "C_D_ID": 1, "C_LAST": 1, "C_FIRST": 1});
        let oldest = index(doc! {"NO_W_ID": 1, "NO_D_ID": 1, "NO_O_ID": 1});
        let newest = index(doc! {"O_W_ID": 1, "O_D_ID": 1, "O_C_ID": 1, "O_ID": -1});
        let all = [WAREHOUSE, DISTRICT, ITEM, STOCK].map(|name| (name, Vec::new()));
        let mut all = Vec::from(all);
        all.push((NEW_ORDER, vec![oldest]));
        match self {
            Self::Normalized => {
                let of_order = index(doc! {"OL_W_ID": 1, "OL_D_ID": 1, "OL_O_ID": 1});
                all.extend([
                    (CUSTOMER, vec![by_name]),
                    (ORDER, vec![newest]),
                    (ORDER_LINE, vec![of_order]),
                    (HISTORY, Vec::new()),
                ]);
            }
            Self::Recommended => {
                all.extend([(CUSTOMER, vec![by_name]), (ORDER, vec![newest]), (HISTORY, Vec::new())]);
            }
            Self::Denormalized => {
                let by_order = index(doc! {"C_W_ID": 1, "C_D_ID": 1, "C_ORDERS.O_ID": 1});
                all.push((CUSTOMER, vec![by_name, by_order]));
            }
        }
        all
    }
}

fn index(key: Document) -> Index {
    Index { key, unique: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_have_nine_eight_and_six_collections() {
        let count = |schema: Schema| schema.collections().len();
        assert_eq!(count(Schema::Normalized), 9);
        assert_eq!(count(Schema::Recommended), 8);
        assert_eq!(count(Schema::Denormalized), 6);
    }
}
