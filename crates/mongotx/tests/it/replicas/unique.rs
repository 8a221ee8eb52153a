//! Inserts under unique indexes where several servers keep the data: documents are placed and
//! compared by one command (decision 0041).

use bson::{Document, doc};
use mongotx::IndexModel;

use super::set;
use crate::{common::world::World, quiet::commands_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_inserts_are_one_command_and_duplicates_are_refused() {
    let set = set().await;
    let world = World::new(&set.uri(), "unique_on_a_set");
    let client = world.client(60_000).await;
    let coll = world.collection(&client, "a");
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    let some = |from: i32| -> Vec<Document> { (from..from + 10).map(|k| doc! {"k": k}).collect() };
    coll.insert_many(&some(0)).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    coll.insert_one(&doc! {"k": 100}).session(&mut session).await.unwrap();
    let many = async { drop(coll.insert_many(&some(10)).session(&mut session).await.unwrap()) };
    // Records are written by updates, too.
    let sent = commands_of(&client, many).await;
    assert!(!sent.contains_key("insert") && !sent.contains_key("find"), "{sent:?}");
    let refused = coll.insert_many(&some(5)).session(&mut session).await.unwrap_err();
    assert_eq!(refused.code(), Some(11_000), "{refused}");
    session.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {}).await.unwrap(), 21);
    world.drop().await;
}
