//! Two gateways in front of one server that keep their client records in different databases.

use crate::common;

use bson::{Document, doc};
use common::{driver, gateway, soon};
use mongodb::error::ErrorKind;
use mongotx_gateway::Limits;

/// Number of MongoDB's error `InvalidOptions`.
const WRONG_OPTIONS: i32 = 72;

#[tokio::test]
async fn transaction_of_another_gateway_is_left_alone_and_the_error_says_why() {
    let ((_one, address), (_other, elsewhere)) = (gateway(Limits::default()).await, gateway(Limits::default()).await);
    let database = local_mongod::unique_db("gw_elsewhere");
    let (here, there) = (driver(address, "").await, driver(elsewhere, "retryReads=false&").await);
    let accounts = here.database(&database).collection::<Document>("accounts");
    soon(accounts.insert_many([doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}])).await.unwrap();
    let mut session = here.start_session().await.unwrap();
    soon(session.start_transaction()).await.unwrap();
    for id in [1, 2] {
        let update = accounts.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut session);
        soon(update).await.unwrap();
    }
    let theirs = there.database(&database).collection::<Document>("accounts");
    let errors = [
        soon(theirs.find_one(doc! {"_id": 1})).await.unwrap_err(),
        soon(theirs.find_one(doc! {"n": {"$gte": 0}})).await.unwrap_err(),
        soon(theirs.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 10}})).await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("another database"), "{error}");
        if let ErrorKind::Command(refused) = &*error.kind {
            assert_eq!(refused.code, WRONG_OPTIONS);
        }
    }
    soon(session.commit_transaction()).await.unwrap();
    let all = doc! {"$group": {"_id": 1, "sum": {"$sum": "$n"}}};
    let mut sums = soon(accounts.aggregate([all])).await.unwrap();
    assert!(soon(sums.advance()).await.unwrap());
    assert_eq!(sums.deserialize_current().unwrap().get_i32("sum").unwrap(), 2);
}
