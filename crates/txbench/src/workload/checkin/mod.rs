//! Check-ins (paper 001, section 4, figure 8): a user looks for the points around, and checks in at
//! the nearest.
//!
//! Each transaction is a `$near` that returns a given number of documents, and one update by `_id`:
//! how its latency and its commands grow with that number is what the figure shows. The paper
//! varies the radius to vary the number of documents; here the number is given and the radius
//! follows from the points, which gives the same number at every place.
//!
//! | file | content |
//! | --- | --- |
//! | `point`, `points`, `fields` | a point; points of a file; the fields that hold them |
//! | `synthetic` | points where there is no file |
//! | `radius`, `client` | the distance of a search; one client |

mod client;
mod fields;
mod point;
mod points;
mod radius;
mod synthetic;

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use bson::{Document, doc};
use clap::Args;
use serde::{Deserialize, Serialize};

pub use self::fields::Fields;
use self::{
    client::{CheckinClient, Search},
    point::{FARTHEST_M, Point},
};
use super::{Broken, Check, Client, ClientId, Progress, Totals, Workload, WorkloadOptions, pages::Pages};
use crate::{
    error::BenchError,
    targets::{Feature, Index, Session, Target},
};

const POINTS: &str = "points";
/// Points that are loaded at once.
const BATCH: usize = 5_000;

/// Options of the workload `checkin`.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct CheckinOptions {
    /// Documents that the search of one check-in returns
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub documents: u32,
    /// File with the points: JSON documents or CSV, packed (.gz) or not [default: points are made]
    #[arg(long, value_name = "FILE")]
    pub points: Option<PathBuf>,
    /// Fields that hold the points: one for both coordinates, or those of longitude and latitude
    /// (lon,lat)
    #[arg(long, requires = "points")]
    pub fields: Option<Fields>,
    /// Number of points that are made
    #[arg(long, default_value_t = 29_353, conflicts_with = "points", value_parser = clap::value_parser!(u32).range(2..=points::MOST as i64))]
    pub synthetic: u32,
    /// Seed of the points: the same ones in every run
    #[arg(long, default_value_t = 1, conflicts_with = "points")]
    pub points_seed: u64,
    /// Radius of the first search, in kilometres; a search that finds too few points is followed by
    /// one of twice the radius [default: one that nearly always holds enough points]
    #[arg(long, value_parser = kilometres)]
    pub radius_km: Option<f64>,
}

fn kilometres(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(radius) if radius > 0.0 && radius * 1_000.0 <= FARTHEST_M => Ok(radius),
        _ => Err("more than 0 and at most half around the earth, 20038, is expected".to_owned()),
    }
}

impl WorkloadOptions for CheckinOptions {
    fn make(&self) -> Result<Box<dyn Workload>, BenchError> {
        let points = match &self.points {
            Some(file) => points::read(file, self.fields.as_ref())?,
            None => synthetic::points(self.synthetic as usize, self.points_seed),
        };
        let (n, documents) = (points.len(), self.documents);
        if n < documents as usize {
            return Err(BenchError::Refused(format!("--documents: {documents} are not there, only {n} points are")));
        }
        let first_radius_m = match self.radius_km {
            Some(radius) => radius * 1_000.0,
            None => radius::first_m(&points, documents as usize),
        };
        let is_made = self.points.is_none();
        Ok(Box::new(CheckIns { is_made, search: Search { points: Arc::new(points), documents, first_radius_m } }))
    }
}

struct CheckIns {
    is_made: bool,
    search: Search,
}

#[async_trait]
impl Workload for CheckIns {
    fn title(&self) -> String {
        format!("checkin {}", self.search.documents)
    }

    fn about(&self) -> String {
        let Search { points, documents, first_radius_m } = &self.search;
        let made = if self.is_made { "made" } else { "of a file" };
        format!(
            "the nearest {documents} of {} points ({made}) searched from a random place, the nearest one updated; first radius {:.1} km",
            points.len(),
            first_radius_m / 1_000.0
        )
    }

    fn needs(&self) -> Vec<Feature> {
        vec![Feature::General, Feature::Near]
    }

    fn collections(&self) -> Vec<&'static str> {
        vec![POINTS]
    }

    async fn load(&self, target: &dyn Target, _seed: u64, progress: Progress<'_>) -> Result<(), BenchError> {
        target.create(POINTS, &[Index { key: doc! {"loc": "2dsphere"}, unique: false }]).await?;
        let points = &self.search.points;
        for (nth, batch) in points.chunks(BATCH).enumerate() {
            let first = nth * BATCH;
            let documents = batch.iter().enumerate().map(|(at, point)| stored((first + at) as i64, *point)).collect();
            target.load(POINTS, documents).await?;
            progress((first + batch.len()) as u64, points.len() as u64);
        }
        Ok(())
    }

    fn client(&self, id: ClientId) -> Result<Box<dyn Client>, BenchError> {
        Ok(Box::new(CheckinClient::new(self.search.clone(), id.seed)))
    }

    /// Checks that as many check-ins are counted as were acknowledged, and that no point is gone.
    async fn check(&self, session: &mut dyn Session, totals: &Totals) -> Check {
        let mut pages = Pages::new(POINTS, doc! {"checkins": 1});
        let (mut points, mut checkins) = (0, 0);
        while let Some(page) = pages.next(session).await? {
            points += page.len();
            checkins += page.iter().map(|point| point.get_i64("checkins").unwrap_or(0)).sum::<i64>();
        }
        let expected = self.search.points.len();
        if points != expected {
            return Err(Broken::Promise(format!("{points} points are there, {expected} were loaded")));
        }
        let (least, most) = (totals.committed, totals.committed + totals.unknown);
        match u64::try_from(checkins) {
            Ok(counted) if (least..=most).contains(&counted) => Ok(()),
            _ => Err(Broken::Promise(format!(
                "{checkins} check-ins are counted; acknowledged were {least}, at most {most}"
            ))),
        }
    }
}

/// A point as it is stored.
fn stored(id: i64, point: Point) -> Document {
    doc! {"_id": id, "loc": point.to_geo_json(), "checkins": 0_i64, "visitor": -1_i64}
}
