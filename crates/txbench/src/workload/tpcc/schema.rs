//! Layouts of the nine tables in collections, and the indexes that the transactions need.

use bson::{Document, doc};
use serde::{Deserialize, Serialize};

use crate::targets::Index;

/// Collection of the table WAREHOUSE, a document for each warehouse.
pub const WAREHOUSE: &str = "warehouse";
/// Collection of the table DISTRICT, a document for each district.
pub const DISTRICT: &str = "district";
/// Collection of the table CUSTOMER, a document for each customer.
pub const CUSTOMER: &str = "customer";
/// Collection of the table HISTORY, a document for each payment.
pub const HISTORY: &str = "history";
/// Collection of the table ORDER, a document for each order.
pub const ORDER: &str = "order";
/// Orders that are not delivered.
pub const NEW_ORDER: &str = "new_order";
/// Collection of the order lines, where they are documents of their own.
pub const ORDER_LINE: &str = "order_line";
/// Collection of the table ITEM, a document for each item.
pub const ITEM: &str = "item";
/// Collection of the warehouses' stocks of items.
pub const STOCK: &str = "stock";

/// The layouts that paper 002 compares. Money is in cents; taxes and discounts are in hundredths of
/// a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Schema {
    /// A collection for each of the nine tables
    Normalized,
    /// Orders, their lines and payments inside the customer: documents that grow for ever, an
    /// anti-pattern
    Denormalized,
    /// Order lines inside the order
    #[default]
    Recommended,
}

impl Schema {
    /// Name of the layout in `--schema`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normalized => "normalized",
            Self::Denormalized => "denormalized",
            Self::Recommended => "recommended",
        }
    }

    /// Collections of the schema, with their indexes.
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
