//! The payment procedure of paper 000, figure 4, line by line, and the views of readers meanwhile.

use bson::{Document, doc};
use mongotx::{Client, Collection, Session};

use super::stage::Stage;
use crate::{failure::Failure, table::Table};

const WAREHOUSE: i32 = 1;
const CUSTOMER: i32 = 10;
const BEFORE: i64 = 1_000;

/// The collections of the figure.
struct Shop {
    custs: Collection<Document>,
    hists: Collection<Document>,
}

/// A reader's view: the customer's year-to-date payment, the number of payments, their sum.
type PaymentView = (i64, usize, i64);

/// Pays twice, rolls the second one back, and shows what each reader sees. False when a reader saw
/// half of a payment.
pub(super) async fn show(stage: &Stage) -> Result<bool, Failure> {
    let client = stage.client().await?;
    let shop = set_up(&client, &stage.database).await?;
    let mut table = Table::new(["", "YTD_PAYMENT", "PAYMENTS", "THEIR TOTAL"]);
    let mut as_expected = true;
    let mut tell = |when: &str, seen: PaymentView, expected: PaymentView| {
        as_expected &= seen == expected;
        table.row([when.to_owned(), seen.0.to_string(), seen.1.to_string(), seen.2.to_string()]);
    };
    let untouched = (BEFORE, 1, BEFORE);
    tell("before", look(&shop, None).await?, untouched);

    let mut session = client.session();
    session.begin()?; // line 4
    let total = pay(&mut session, &shop, WAREHOUSE, CUSTOMER, 300).await?;
    tell("in the transaction, 300 paid", look(&shop, Some(&mut session)).await?, (1_300, 2, total));
    tell("  another client meanwhile", look(&shop, None).await?, untouched);
    session.commit().await?; // line 16
    let paid = (1_300, 2, 1_300);
    tell("after the commit", look(&shop, None).await?, paid);

    session.begin()?;
    pay(&mut session, &shop, WAREHOUSE, CUSTOMER, 700).await?;
    tell("in another one, 700 paid", look(&shop, Some(&mut session)).await?, (2_000, 3, 2_000));
    session.rollback().await?;
    tell("after its rollback", look(&shop, None).await?, paid);

    let table = table
        .to_string()
        .lines()
        .map(|line| format!("   {line}\n"))
        .collect::<String>()
        .trim_end_matches('\n')
        .to_owned();
    stage.live.line(&table);
    client.shutdown().await?;
    Ok(as_expected)
}

async fn set_up(client: &Client, database: &str) -> Result<Shop, Failure> {
    let database = client.database(database);
    let shop = Shop { custs: database.collection("custs"), hists: database.collection("hists") };
    shop.custs.insert_one(&doc! {"_id": CUSTOMER, "NAME": "Tamiya", "YTD_PAYMENT": BEFORE}).await?;
    shop.hists.insert_one(&doc! {"C_ID": CUSTOMER, "W_ID": WAREHOUSE, "AMOUNT": BEFORE}).await?;
    Ok(shop)
}

/// Figure 4 between `begin` (line 4) and `commit` (line 16); the numbers are the figure's lines.
async fn pay(
    session: &mut Session,
    shop: &Shop,
    warehouse: i32,
    customer: i32,
    amount: i64,
) -> Result<i64, mongotx::Error> {
    // 5-7
    let Some(mut cust) = shop.custs.find_one(doc! {"_id": customer}).session(session).await? else { return Ok(0) };
    cust.insert("YTD_PAYMENT", cust.get_i64("YTD_PAYMENT").unwrap_or(0) + amount);
    shop.custs.replace_one(doc! {"_id": customer}, &cust).session(session).await?;
    // 8-10
    let hist = doc! {"C_ID": customer, "W_ID": warehouse, "AMOUNT": amount};
    shop.hists.insert_one(&hist).session(session).await?;
    // 11-15
    let mut total = 0;
    let mut cursor = shop.hists.find(doc! {"W_ID": warehouse, "C_ID": customer}).session(session).await?;
    while let Some(hist) = cursor.next().await? {
        total += hist.get_i64("AMOUNT").unwrap_or(0);
    }
    Ok(total)
}

async fn look(shop: &Shop, session: Option<&mut Session>) -> Result<PaymentView, mongotx::Error> {
    let (cust, hists) = match session {
        Some(session) => {
            let cust = shop.custs.find_one(doc! {"_id": CUSTOMER}).session(session).await?;
            (cust, shop.hists.find(doc! {}).session(session).await?.try_collect().await?)
        }
        None => {
            (shop.custs.find_one(doc! {"_id": CUSTOMER}).await?, shop.hists.find(doc! {}).await?.try_collect().await?)
        }
    };
    let paid = cust.and_then(|cust| cust.get_i64("YTD_PAYMENT").ok()).unwrap_or(0);
    Ok((paid, hists.len(), hists.iter().filter_map(|hist| hist.get_i64("AMOUNT").ok()).sum()))
}
