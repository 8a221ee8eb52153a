//! Checks that both sides answer alike, before their speed is compared.

use rand::{SeedableRng, rngs::StdRng};

use super::{
    super::BenchError,
    QueriesArgs,
    side::{MongoTx, Plain, Side},
};

/// Number of queries of each shape.
const QUERIES: usize = 10;

/// Runs some queries of each shape on both sides, with nothing pending, and compares their numbers
/// of results.
pub(crate) async fn answers(args: &QueriesArgs, plain: &Plain, mongotx: &MongoTx) -> Result<(), BenchError> {
    let mut random = StdRng::seed_from_u64(args.seed);
    for shape in args.shapes() {
        for _ in 0..QUERIES {
            let query = shape.query(args.documents, &mut random);
            let (expected, found) = (plain.ask(query.clone()).await?, mongotx.ask(query.clone()).await?);
            if expected != found || shape.results().is_some_and(|results| results != found) {
                return Err(BenchError::Failed(format!(
                    "{}: the plain driver has {expected} results, MongoTx {found}, of {query:?}",
                    shape.title()
                )));
            }
        }
    }
    Ok(())
}
