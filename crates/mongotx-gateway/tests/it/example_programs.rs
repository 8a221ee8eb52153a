//! Runs the programs of `examples/` against a real server. Each checks its own result.

#[allow(dead_code, reason = "its main function is for `cargo run --example`")]
#[path = "../../examples/embedded_gateway.rs"]
mod embedded_gateway;

#[tokio::test]
async fn an_embedded_gateway_serves_the_official_driver() {
    let server = local_mongod::shared_standalone().await.unwrap();
    embedded_gateway::run_example(&server.uri()).await.unwrap();
}
