//! Orders with their lines, in the three layouts: lines apart, lines in their order, orders in
//! their customer.

use bson::{Bson, DateTime, Document, doc};

use super::loaded_at;
use crate::workload::tpcc::{
    draw::Draw,
    ids::{Customer, District, Order},
    scale::Scale,
};

/// An order without its lines.
#[derive(Clone, Debug)]
pub struct OrderRow {
    /// Primary key of the order.
    pub order: Order,
    /// Number of the customer in the order's district.
    pub customer: u32,
    /// Time at which the order was made.
    pub at: DateTime,
    /// Carrier that delivered it, if it was delivered.
    pub carrier: Option<u32>,
    /// Number of its lines, those of a wrong item included.
    pub line_count: usize,
    /// True if all lines are supplied by the order's own warehouse.
    pub all_local: bool,
}

/// One line of an order.
#[derive(Clone, Debug)]
pub struct LineRow {
    /// Place in the order, from 1.
    pub number: usize,
    /// Number of the item ordered.
    pub item: u32,
    /// Number of the warehouse that supplies the item.
    pub supply: u32,
    /// Number of pieces of the item that are ordered.
    pub quantity: u32,
    /// Amount of the line, in cents.
    pub amount_cents: i64,
    /// The stock's text for the district.
    pub dist_info: String,
    /// Time of the delivery, if it was delivered.
    pub delivered: Option<DateTime>,
}

impl OrderRow {
    /// Primary key of the customer who ordered.
    pub fn by(&self) -> Customer {
        Customer { district: self.order.district, number: self.customer }
    }

    /// The document of the order, without lines.
    pub fn document(&self) -> Document {
        let District { warehouse, number } = self.order.district;
        let mut row = doc! {"_id": self.order.id(), "O_D_ID": i64::from(number), "O_W_ID": i64::from(warehouse)};
        row.extend(self.own_fields());
        row
    }

    /// The document with its lines in it.
    pub fn with_lines(&self, lines: &[LineRow]) -> Document {
        let mut row = self.document();
        row.extend(self.embedded_lines(lines));
        row
    }

    /// The element of a customer's orders.
    pub fn embedded(&self, lines: &[LineRow]) -> Document {
        let mut row = self.own_fields();
        row.extend(self.embedded_lines(lines));
        row
    }

    /// The row in the table of orders that are not delivered. It names the customer where that is
    /// how the order is found.
    pub fn new_order(&self, with_customer: bool) -> Document {
        let Order { district, number } = self.order;
        let (warehouse, district) = (i64::from(district.warehouse), i64::from(district.number));
        let mut row = doc! {"_id": self.order.id(), "NO_O_ID": number, "NO_D_ID": district, "NO_W_ID": warehouse};
        if with_customer {
            row.insert("NO_C_ID", i64::from(self.customer));
        }
        row
    }

    fn own_fields(&self) -> Document {
        doc! {
            "O_ID": self.order.number,
            "O_C_ID": i64::from(self.customer),
            "O_ENTRY_D": self.at,
            "O_CARRIER_ID": self.carrier.map_or(Bson::Null, |carrier| Bson::Int64(carrier.into())),
            "O_OL_CNT": self.line_count as i64,
            "O_ALL_LOCAL": i64::from(self.all_local),
        }
    }

    /// All lines of an order are delivered at once: the date stands once, beside them.
    fn embedded_lines(&self, lines: &[LineRow]) -> Document {
        let delivered = lines.first().and_then(|line| line.delivered);
        let lines: Vec<Bson> = lines.iter().map(|line| line.fields().into()).collect();
        doc! {"O_DELIVERY_D": delivered.map_or(Bson::Null, Bson::DateTime), "O_LINES": lines}
    }
}

impl LineRow {
    /// The document of a line, where lines are documents of their own.
    pub fn document(&self, of: Order) -> Document {
        let Order { district, number } = of;
        let (warehouse, district) = (i64::from(district.warehouse), i64::from(district.number));
        let id = of.line_id(self.number);
        let mut row = doc! {"_id": id, "OL_O_ID": number, "OL_D_ID": district, "OL_W_ID": warehouse};
        row.extend(self.fields());
        row.insert("OL_DELIVERY_D", self.delivered.map_or(Bson::Null, Bson::DateTime));
        row
    }

    fn fields(&self) -> Document {
        doc! {
            "OL_NUMBER": self.number as i64,
            "OL_I_ID": i64::from(self.item),
            "OL_SUPPLY_W_ID": i64::from(self.supply),
            "OL_QUANTITY": i64::from(self.quantity),
            "OL_AMOUNT": self.amount_cents,
            "OL_DIST_INFO": &self.dist_info,
        }
    }
}

/// The first orders of a district: one of every customer, in random order; the last three of ten
/// are not delivered.
pub fn first_orders(draw: &mut Draw, district: District, scale: &Scale) -> Vec<(OrderRow, Vec<LineRow>)> {
    let customers = draw.permutation(scale.customers);
    let orders = customers.into_iter().zip(1..).map(|(customer, number)| {
        let order = Order { district, number };
        let is_delivered = number <= i64::from(scale.delivered());
        let line_count = draw.uniform(5..=15) as usize;
        let carrier = is_delivered.then(|| draw.uniform(1..=10));
        let lines = (1..=line_count).map(|number| first_line(draw, district, number, is_delivered, scale)).collect();
        (OrderRow { order, customer, at: loaded_at(), carrier, line_count, all_local: true }, lines)
    });
    orders.collect()
}

fn first_line(draw: &mut Draw, district: District, number: usize, is_delivered: bool, scale: &Scale) -> LineRow {
    LineRow {
        number,
        item: draw.uniform(1..=scale.items),
        supply: district.warehouse,
        quantity: 5,
        amount_cents: if is_delivered { 0 } else { draw.cents(1..=999_999) },
        dist_info: draw.a_string(24..=24),
        delivered: is_delivered.then(loaded_at),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_district_begins_with_3000_orders_of_which_2100_are_delivered() {
        let district = District { warehouse: 2, number: 3 };
        let orders = first_orders(&mut Draw::new(1, 0), district, &Scale::new(2, 1.0));
        assert_eq!(orders.len(), 3_000);
        assert_eq!(orders.iter().map(|(order, _)| order.customer).collect::<BTreeSet<_>>().len(), 3_000);
        for (order, lines) in &orders {
            let delivered = order.order.number <= 2_100;
            assert_eq!((order.carrier.is_some(), order.line_count), (delivered, lines.len()));
            assert!((5..=15).contains(&lines.len()));
            for line in lines {
                assert_eq!((line.delivered.is_some(), line.amount_cents == 0), (delivered, delivered));
                assert_eq!((line.supply, line.quantity, line.dist_info.len()), (2, 5, 24));
            }
        }
    }

    #[test]
    fn a_line_names_its_order_only_where_it_stands_alone() {
        let district = District { warehouse: 1, number: 1 };
        let (order, lines) = first_orders(&mut Draw::new(1, 0), district, &Scale::new(1, 0.01)).swap_remove(0);
        assert!(lines[0].document(order.order).contains_key("OL_O_ID"));
        let embedded = order.with_lines(&lines);
        let first = embedded.get_array("O_LINES").ok().and_then(|lines| lines[0].as_document());
        assert!(first.is_some_and(|line| !line.contains_key("OL_O_ID") && line.contains_key("OL_AMOUNT")));
        assert!(embedded.contains_key("O_W_ID") && !order.embedded(&lines).contains_key("O_W_ID"));
    }
}
