//! The data is broken on purpose, once for each condition, and the check must see it.

use bson::{Document, doc};
use txbench::{
    targets::Update,
    workload::{Totals, tpcc::check::violations},
};

use crate::tpcc::setting::Setting;

/// The conditions that are found broken after this update of the first row that matches.
async fn broken_by(setting: &Setting, collection: &str, filter: Document, update: Document) -> Vec<u8> {
    let mut session = setting.session().await;
    assert!(session.update(collection, Update { filter, update }).await.unwrap(), "no such row in {collection}");
    let found = violations(&setting.state().await, &setting.options.scale());
    let mut conditions: Vec<u8> = found.iter().map(|violation| violation.condition).collect();
    conditions.dedup();
    conditions.sort_unstable();
    conditions.dedup();
    conditions
}

#[tokio::test]
async fn every_condition_is_seen_to_be_broken_in_a_database() {
    let setting = Setting::load("plain", "--schema normalized").await;
    let first = |prefix: &str| doc! {format!("{prefix}_W_ID"): 1, format!("{prefix}_D_ID"): 1};
    let add = |field: &str, by: i64| doc! {"$inc": {field: by}};
    let set = |field: &str, to: Option<i64>| doc! {"$set": {field: to}};
    // Each change is taken back before the next.
    let mut order = first("O");
    order.insert("O_ID", 5);
    let mut line = first("OL");
    line.insert("OL_O_ID", 5);
    let mut fresh = first("NO");
    fresh.insert("NO_O_ID", 30);
    let mut moved = first("NO");
    moved.insert("NO_O_ID", 99);
    let history = doc! {"H_W_ID": 1, "H_D_ID": 1};
    let customer = doc! {"C_W_ID": 1, "C_D_ID": 1, "C_ID": 3};
    let district = doc! {"D_W_ID": 1, "D_ID": 1};
    let cases: [(&str, Document, Document, Document, &[u8]); 10] = [
        ("warehouse", doc! {}, add("W_YTD", 1), add("W_YTD", -1), &[1, 8]),
        ("district", district.clone(), add("D_NEXT_O_ID", 1), add("D_NEXT_O_ID", -1), &[2]),
        ("district", district, add("D_YTD", 1), add("D_YTD", -1), &[1, 9]),
        ("order", order.clone(), add("O_OL_CNT", 1), add("O_OL_CNT", -1), &[4, 6]),
        ("order", order, set("O_CARRIER_ID", None), set("O_CARRIER_ID", Some(1)), &[5, 7]),
        ("order_line", line.clone(), set("OL_DELIVERY_D", None), set("OL_DELIVERY_D", Some(1)), &[7]),
        ("order_line", line, add("OL_AMOUNT", 3), add("OL_AMOUNT", -3), &[10, 12]),
        ("history", history, add("H_AMOUNT", 1), add("H_AMOUNT", -1), &[8, 9, 10]),
        ("customer", customer.clone(), add("C_DELIVERY_CNT", 1), add("C_DELIVERY_CNT", -1), &[11]),
        ("customer", customer, add("C_YTD_PAYMENT", 1), add("C_YTD_PAYMENT", -1), &[12]),
    ];
    for (collection, filter, change, back, expected) in cases {
        assert_eq!(broken_by(&setting, collection, filter.clone(), change).await, expected, "{collection}");
        assert_eq!(broken_by(&setting, collection, filter, back).await, [0_u8; 0], "{collection}");
    }
    let broken = broken_by(&setting, "new_order", fresh, set("NO_O_ID", Some(99))).await;
    assert_eq!(broken, [2, 3, 5]);
    let said = setting.broken(&Totals::default()).await.unwrap();
    assert!(said.contains("3.3.2.3") && said.contains("warehouse 1, district 1"), "{said}");
    assert_eq!(broken_by(&setting, "new_order", moved, set("NO_O_ID", Some(30))).await, [0_u8; 0]);
}

#[tokio::test]
async fn conditions_of_orders_are_seen_to_be_broken_where_the_lines_are_inside() {
    for (schema, collection, prefix) in [("recommended", "order", ""), ("denormalized", "customer", "C_ORDERS.0.")] {
        let setting = Setting::load("plain", &format!("--schema {schema}")).await;
        let id = match schema {
            "recommended" => doc! {"O_W_ID": 1, "O_D_ID": 2, "O_ID": 5},
            _ => doc! {"C_W_ID": 1, "C_D_ID": 2, "C_ORDERS.O_ID": 5},
        };
        let field = |name: &str| format!("{prefix}{name}");
        let undated = doc! {"$set": {field("O_DELIVERY_D"): None::<i64>}};
        assert_eq!(broken_by(&setting, collection, id.clone(), undated).await, [7], "{schema}");
        let unsent = doc! {"$set": {field("O_CARRIER_ID"): None::<i64>}};
        assert_eq!(broken_by(&setting, collection, id.clone(), unsent).await, [5], "{schema}");
        let lost = doc! {"$set": {field("O_LINES"): []}};
        assert_eq!(broken_by(&setting, collection, id, lost).await, [4, 5, 6], "{schema}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_and_is_not_there_is_seen() {
    let setting = Setting::load("plain", "").await;
    let lost = |effect: &str| Totals { effects: [(effect.to_owned(), 1)].into(), ..Totals::default() };
    let said = setting.broken(&lost("orders")).await.unwrap();
    assert!(said.contains("0 orders are there; 1 were acknowledged"), "{said}");
    assert!(setting.broken(&lost("paid cents")).await.is_some());
    let mut session = setting.session().await;
    assert!(session.delete("customer", doc! {"C_ID": 7}).await.unwrap());
    let said = setting.broken(&Totals::default()).await.unwrap();
    assert!(said.contains("11") || said.contains("299"), "{said}");
}
