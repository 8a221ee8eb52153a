//! Each transaction, in each layout, in each way to write it.

use bson::{DateTime, doc};
use txbench::targets::Find;
use txbench::workload::{
    Totals,
    tpcc::{
        ids::{self, Customer, District},
        input::{Delivery, Line, NewOrder, Payment, StockLevel, Who},
        tx::{delivery, new_order, order_status, payment, stock_level, work::Work},
    },
};

use crate::tpcc::setting::Setting;

const HOME: District = District { warehouse: 1, number: 4 };
const CUSTOMER: Customer = Customer { district: HOME, number: 9 };

const WAYS: [&str; 4] =
    ["", "--as-published", "--find-and-modify false --needed-fields false", "--batch false --writes-first false"];

/// Runs `body` in a transaction that commits.
macro_rules! transaction {
    ($setting:expr, $work:ident, $body:expr) => {{
        let mut session = $setting.session().await;
        session.begin(&Default::default()).await.unwrap();
        let mut work = Work { session: &mut *session, how: $setting.options.how() };
        let $work = &mut work;
        let answer = $body.await.unwrap();
        session.commit().await.unwrap();
        answer
    }};
}

fn order(items: &[u32]) -> NewOrder {
    let lines = items.iter().map(|item| Line { item: *item, supply: 1 + item % 2, quantity: 7 });
    NewOrder { customer: CUSTOMER, lines: lines.collect() }
}

/// Runs all five, and checks what each must have left.
async fn five(setting: &Setting) {
    let before = setting.state().await;
    let now = DateTime::now();
    // Item 8 twice: the same stock is changed two times.
    let input = order(&[8, 3, 8, 5, 20]);
    let made = transaction!(setting, work, new_order::run_new_order(work, &input, now));
    assert_eq!((made.order.number, made.lines.len(), made.wrong_item), (31, 5, false));
    let amount: i64 = made.lines.iter().map(|line| line.amount_cents).sum();
    assert!(made.lines.iter().all(|line| line.amount_cents == 7 * line.price_cents));
    let stocks = [made.lines[0].stock_quantity, made.lines[2].stock_quantity];
    assert!(stocks[1] == stocks[0] - 7 || stocks[1] == stocks[0] + 84, "{stocks:?}");
    for (warehouse, item, expected) in [(1, 8, [14, 2, 0]), (2, 3, [7, 1, 1])] {
        let filter = doc! {"_id": ids::stock(warehouse, item)};
        let row = setting.session().await.find_one("stock", Find::new(filter)).await.unwrap().unwrap();
        let found = ["S_YTD", "S_ORDER_CNT", "S_REMOTE_CNT"].map(|field| row.get_i64(field).unwrap());
        assert_eq!(found, expected, "of item {item} in warehouse {warehouse}");
    }

    let shown = transaction!(setting, work, order_status::run_order_status(work, &Who::Number(CUSTOMER)));
    let newest = shown.newest.unwrap();
    assert_eq!((newest.number, newest.carrier), (31, None));
    let mut items: Vec<i64> = newest.lines.iter().map(|(item, _)| *item).collect();
    items.sort_unstable();
    assert_eq!(items, [3, 5, 8, 8, 20]);
    assert_eq!(newest.lines.iter().map(|(_, amount)| amount).sum::<i64>(), amount);

    let by_name = Who::Name { district: HOME, last: "BARBARBAR".to_owned() };
    let asked = transaction!(setting, work, order_status::run_order_status(work, &by_name));
    let to = District { warehouse: 2, number: 1 };
    let input = Payment { to, who: by_name, amount_cents: 12_345, history_id: -5 };
    let paid = transaction!(setting, work, payment::run_payment(work, &input, now));
    assert_eq!((paid.customer, paid.balance_cents), (asked.customer, asked.balance_cents - 12_345));

    // The oldest order of each district is number 22; the eleventh delivery of a district has the
    // new one.
    for _ in 22..=31 {
        let input = Delivery { warehouse: 1, carrier: 3 };
        transaction!(setting, work, delivery::run_delivery(work, &input, now));
    }
    let after = setting.state().await;
    assert!(after.new_orders.iter().all(|order| order.district.warehouse == 2), "{:?}", after.new_orders);
    let owed = after.customers[&CUSTOMER].balance - before.customers[&CUSTOMER].balance;
    assert!(owed >= amount, "{owed} {amount}");
    assert_eq!(after.districts[&to].ytd, before.districts[&to].ytd + 12_345);

    let low = |threshold| StockLevel { district: HOME, threshold };
    let all = transaction!(setting, work, stock_level::run_stock_level(work, &low(1_000)));
    let none = transaction!(setting, work, stock_level::run_stock_level(work, &low(0)));
    assert!(all > 50 && none == 0, "{all} {none}");
    let totals =
        Totals { effects: [("orders".to_owned(), 1), ("paid cents".to_owned(), 12_345)].into(), ..Totals::default() };
    assert_eq!(setting.broken(&totals).await, None);
}

async fn five_in(target: &str, schema: &str, ways: &[&str]) {
    for way in ways {
        let setting = Setting::load(target, &format!("--warehouses 2 --schema {schema} {way}")).await;
        assert_eq!(setting.broken(&Totals::default()).await, None, "loaded: {schema}");
        five(&setting).await;
    }
}

#[tokio::test]
async fn five_transactions_normalized() {
    five_in("mongotx", "normalized", &WAYS[..2]).await;
    five_in("native", "normalized", &WAYS[..1]).await;
}

#[tokio::test]
async fn five_transactions_recommended() {
    five_in("mongotx", "recommended", &WAYS).await;
    five_in("native", "recommended", &[WAYS[0], WAYS[3]]).await;
    five_in("plain", "recommended", &WAYS[1..]).await;
}

#[tokio::test]
async fn five_transactions_denormalized() {
    five_in("mongotx", "denormalized", &WAYS[..2]).await;
    five_in("native", "denormalized", &WAYS[..1]).await;
}

#[tokio::test]
async fn an_order_of_a_wrong_item_is_reported_and_leaves_nothing() {
    for way in &WAYS[..2] {
        let setting = Setting::load("mongotx", way).await;
        let mut session = setting.session().await;
        session.begin(&Default::default()).await.unwrap();
        let mut work = Work { session: &mut *session, how: setting.options.how() };
        let mut input = order(&[2, 4, 6, 10, 101]);
        input.lines.iter_mut().for_each(|line| line.supply = 1);
        let made = new_order::run_new_order(&mut work, &input, DateTime::now()).await.unwrap();
        assert_eq!((made.wrong_item, made.lines.len()), (true, 4), "{way}");
        session.rollback().await.unwrap();
        assert_eq!(setting.broken(&Totals::default()).await, None, "{way}");
    }
}
