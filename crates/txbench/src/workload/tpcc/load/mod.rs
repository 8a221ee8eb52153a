//! Fills the collections (clause 4.3), a district at a time, so that only one is in memory.

mod bulk;
mod district;

use self::bulk::Bulk;
use super::{
    draw::Draw,
    ids::District,
    natural,
    nurand::NuRands,
    rows::{stock, warehouse},
    scale::{DISTRICTS, Scale},
    schema::{DISTRICT, ITEM, STOCK, Schema, WAREHOUSE},
};
use crate::{error::BenchError, targets::Target, workload::Progress};

/// Rows of items and stocks that are made at a time.
const AT_ONCE: u32 = 2_000;

/// The data that is to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of rows of each table.
    pub scale: Scale,
    /// Layout of the nine tables in collections.
    pub schema: Schema,
    /// True if rows are found by their primary keys, not by their `_id`s.
    pub natural_keys: bool,
    /// Seed of the random values of the rows.
    pub seed: u64,
    /// Seed of the distributions' constants.
    pub constants_seed: u64,
}

/// Makes the collections and fills them.
///
/// # Errors
/// The target's errors.
pub async fn load(target: &dyn Target, load: &Load, progress: Progress<'_>) -> Result<(), BenchError> {
    for (collection, mut indexes) in load.schema.collections() {
        if let Some(natural) = natural::index(collection).filter(|_| load.natural_keys) {
            indexes.retain(|index| index.key != natural.key);
            indexes.push(natural);
        }
        target.create(collection, &indexes).await?;
    }
    let mut bulk = Bulk::new(target, progress, load);
    items(&mut bulk, load).await?;
    let nurands = NuRands::of_load(&load.scale, load.constants_seed);
    for number in 1..=load.scale.warehouses {
        warehouse(&mut bulk, load, number).await?;
        for district in 1..=DISTRICTS {
            let district = District { warehouse: number, number: district };
            district::load(&mut bulk, load, district, &nurands).await?;
        }
    }
    bulk.end();
    Ok(())
}

impl Load {
    /// A source of values that depend only on the seed and on their purpose.
    fn draw(&self, warehouse: u32, part: u32) -> Draw {
        Draw::new(self.seed, (u64::from(warehouse) << 32) + u64::from(part))
    }

    /// Documents in all; order lines are counted by their average.
    fn documents_about(&self) -> u64 {
        let Scale { warehouses, items, customers, .. } = self.scale;
        let fixed = u64::from(items) + u64::from(warehouses) * u64::from(1 + items + DISTRICTS);
        let new_orders = customers - self.scale.delivered();
        fixed
            + match self.schema {
                Schema::Normalized => self.scale.of_districts(3 * customers + new_orders) + self.scale.lines_about(),
                Schema::Recommended => self.scale.of_districts(3 * customers + new_orders),
                Schema::Denormalized => self.scale.of_districts(customers + new_orders),
            }
    }
}

async fn items(bulk: &mut Bulk<'_>, load: &Load) -> Result<(), BenchError> {
    let mut draw = load.draw(0, 0);
    for from in (1..=load.scale.items).step_by(AT_ONCE as usize) {
        let to = load.scale.items.min(from + AT_ONCE - 1);
        bulk.put(ITEM, (from..=to).map(|number| stock::item(&mut draw, number)).collect()).await?;
    }
    Ok(())
}

async fn warehouse(bulk: &mut Bulk<'_>, load: &Load, number: u32) -> Result<(), BenchError> {
    let mut draw = load.draw(number, 0);
    bulk.put(WAREHOUSE, vec![warehouse::warehouse(&mut draw, number, &load.scale)]).await?;
    let districts = (1..=DISTRICTS).map(|district| District { warehouse: number, number: district });
    let districts = districts.map(|district| warehouse::district(&mut draw, district, &load.scale));
    bulk.put(DISTRICT, districts.collect()).await?;
    for from in (1..=load.scale.items).step_by(AT_ONCE as usize) {
        let to = load.scale.items.min(from + AT_ONCE - 1);
        bulk.put(STOCK, (from..=to).map(|item| stock::stock(&mut draw, number, item)).collect()).await?;
    }
    Ok(())
}
