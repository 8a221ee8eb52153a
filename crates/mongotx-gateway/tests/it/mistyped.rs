//! Every field of every command with values of every type: an answer each time, and never the one
//! that means a panic.

use crate::common;

use bson::Document;
use common::{
    examples::{commands, generic, values},
    gateway, soon,
};
use mongotx_gateway::{Limits, Request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_values_are_answered() {
    let (gateway, _) = gateway(Limits::default()).await;
    let database = local_mongod::unique_db("gw_mistyped");
    let connection = gateway.connect();
    let mut asked = 0;
    for command in commands() {
        for with_generic in [false, true] {
            let mut whole = command.clone();
            let fields: Vec<String> =
                if with_generic { generic().keys().cloned().collect() } else { command.keys().cloned().collect() };
            if with_generic {
                whole.extend(generic());
            }
            whole.insert("$db", &database);
            for (field, value) in fields.iter().flat_map(|field| values().into_iter().map(move |value| (field, value)))
            {
                let mut wrong = whole.clone();
                wrong.insert(field, value);
                let Ok(request) = Request::of(&wrong) else { continue };
                // A panic here is not caught, and fails the test.
                let reply = soon(gateway.run_command(&connection, &request)).await;
                let reply = Document::try_from(reply.body()).unwrap();
                let ok = reply.get_f64("ok").ok().or_else(|| reply.get_i32("ok").ok().map(f64::from));
                assert!(ok == Some(1.0) || ok == Some(0.0) && reply.contains_key("errmsg"), "{wrong}: {reply}");
                asked += 1;
            }
        }
    }
    assert!(asked > 3_000, "{asked}");
}
