//! One client: a search by distance, and the nearest point's document updated, in one transaction
//! (paper 001, section 4).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bson::{Document, doc};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    POINTS,
    point::{FARTHEST_M, Point},
    radius,
};
use crate::{
    error::{BenchError, OpResult},
    targets::{Find, Session, TxOptions, Update},
    workload::{Chosen, Client, Done},
};

/// Difference that the distances of the server and of this program may have, in metres.
const TOLERANCE_M: f64 = 0.1;

/// The search that a client makes.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pub(super) points: Arc<Vec<Point>>,
    pub(super) documents: u32,
    pub(super) first_radius_m: f64,
}

pub(super) struct CheckinClient {
    random: StdRng,
    search: Search,
    origin: Point,
    visitor: i64,
    violations: u64,
}

impl CheckinClient {
    pub(super) fn new(search: Search, seed: u64) -> Self {
        let origin = Point { longitude: 0.0, latitude: 0.0 };
        Self { random: StdRng::seed_from_u64(seed), search, origin, visitor: 0, violations: 0 }
    }
}

#[async_trait]
impl Client for CheckinClient {
    fn choose(&mut self) -> Chosen {
        self.origin = radius::origin(&mut self.random, &self.search.points);
        self.visitor = self.random.random_range(0..1_000_000);
        Chosen { kind: "check-in", operations: 2, wait: Duration::ZERO }
    }

    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done> {
        session.begin(&TxOptions::default()).await?;
        let found = self.search.nearest(session, self.origin).await?;
        let Some(id) = found.first().and_then(|nearest| nearest.get("_id")) else {
            return Err(BenchError::Failed("a search around the whole earth found no point".to_owned()).into());
        };
        let update = doc! {"$inc": {"checkins": 1_i64}, "$set": {"visitor": self.visitor}};
        if !session.update(POINTS, Update { filter: doc! {"_id": id.clone()}, update }).await? {
            return Err(BenchError::Failed(format!("the point {id} is not there any more")).into());
        }
        session.commit().await?;
        self.violations += u64::from(!is_in_order(self.origin, &found));
        Ok(Done::Committed)
    }

    fn violations(&self) -> u64 {
        self.violations
    }
}

impl Search {
    /// The nearest points, in the order of their distance. Searches farther as long as there are
    /// too few.
    async fn nearest(&self, session: &mut dyn Session, origin: Point) -> OpResult<Vec<Document>> {
        let mut radius_m = self.first_radius_m;
        loop {
            let near = doc! {"$near": {"$geometry": origin.to_geo_json(), "$maxDistance": radius_m}};
            let found = session.find(POINTS, Find::new(doc! {"loc": near}).limit(self.documents)).await?;
            if found.len() >= self.documents as usize || radius_m >= FARTHEST_M {
                return Ok(found);
            }
            radius_m = (radius_m * 2.0).min(FARTHEST_M);
        }
    }
}

/// Points never move, so whatever else happens, a search gives them in the order of their distance.
fn is_in_order(origin: Point, found: &[Document]) -> bool {
    let distance = |point: &Document| Some(Point::of_geo_json(point.get_document("loc").ok()?)?.distance_m(origin));
    let distances: Option<Vec<f64>> = found.iter().map(distance).collect();
    distances.is_some_and(|distances| distances.is_sorted_by(|near, far| *near <= far + TOLERANCE_M))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_is_none_is_seen() {
        let at = |longitude: f64| doc! {"loc": Point { longitude, latitude: 0.0 }.to_geo_json()};
        let origin = Point { longitude: 0.0, latitude: 0.0 };
        assert!(is_in_order(origin, &[at(0.0), at(1.0), at(-1.0), at(2.0)]));
        assert!(!is_in_order(origin, &[at(1.0), at(0.5)]));
        assert!(!is_in_order(origin, &[doc! {}]));
    }
}
