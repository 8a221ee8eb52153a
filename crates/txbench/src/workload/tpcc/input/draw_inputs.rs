//! A terminal: it has a warehouse and a district for ever, and draws inputs.

use super::{Delivery, Input, Line, NewOrder, Payment, StockLevel, Who};
use crate::workload::tpcc::{
    draw::{Draw, last_name},
    ids::{Customer, District},
    kind::Kind,
    nurand::NuRands,
    scale::{DISTRICTS, Scale},
};

/// Percent of customers that are named by their last name (clauses 2.5.1.2, 2.6.1.2).
const BY_NAME: u32 = 60;
/// Percent of payments by customers of another warehouse (clause 2.5.1.2).
const REMOTE_PAYMENTS: u32 = 15;
/// Percent of order lines that another warehouse supplies (clause 2.4.1.5).
const REMOTE_LINES: u32 = 1;

/// Source of one terminal's inputs.
#[derive(Debug)]
pub struct Terminal {
    draw: Draw,
    nurands: NuRands,
    scale: Scale,
    home: District,
    rollback_percent: u32,
}

impl Terminal {
    /// The terminal with this number, from 0: terminals are spread over the warehouses, then over
    /// their districts. So many percent of its orders have an item that does not exist (1, after
    /// clause 2.4.1.4).
    pub fn new(draw: Draw, scale: Scale, nurands: NuRands, number: u32, rollback_percent: u32) -> Self {
        let home =
            District { warehouse: number % scale.warehouses + 1, number: number / scale.warehouses % DISTRICTS + 1 };
        Self { draw, nurands, scale, home, rollback_percent }
    }

    /// The source of random values of these inputs.
    pub fn draw(&mut self) -> &mut Draw {
        &mut self.draw
    }

    /// An input for a transaction of this kind.
    pub fn input(&mut self, kind: Kind) -> Input {
        match kind {
            Kind::NewOrder => Input::NewOrder(self.new_order()),
            Kind::Payment => Input::Payment(self.payment()),
            Kind::OrderStatus => {
                let district = self.district();
                Input::OrderStatus(self.who(district))
            }
            Kind::Delivery => {
                let carrier = self.draw.uniform(1..=10);
                Input::Delivery(Delivery { warehouse: self.home.warehouse, carrier })
            }
            Kind::StockLevel => {
                let threshold = self.draw.uniform(10..=20);
                Input::StockLevel(StockLevel { district: self.home, threshold })
            }
        }
    }

    fn new_order(&mut self) -> NewOrder {
        let district = self.district();
        let customer = Customer { district, number: self.nurands.customer.draw(&mut self.draw) };
        let count = self.draw.uniform(5..=15);
        let mut lines: Vec<Line> = (0..count).map(|_| self.line()).collect();
        if self.draw.percent(self.rollback_percent)
            && let Some(last) = lines.last_mut()
        {
            last.item = self.scale.items + 1;
        }
        NewOrder { customer, lines }
    }

    fn line(&mut self) -> Line {
        let item = self.nurands.item.draw(&mut self.draw);
        let supply = if self.draw.percent(REMOTE_LINES) { self.other_warehouse() } else { self.home.warehouse };
        Line { item, supply, quantity: self.draw.uniform(1..=10) }
    }

    fn payment(&mut self) -> Payment {
        let to = self.district();
        let remote = self.draw.percent(REMOTE_PAYMENTS) && self.scale.warehouses > 1;
        let of = match remote {
            true => District { warehouse: self.other_warehouse(), number: self.draw.uniform(1..=DISTRICTS) },
            false => to,
        };
        let who = self.who(of);
        let amount_cents = self.draw.cents(100..=500_000);
        Payment { to, who, amount_cents, history_id: -1 - self.draw.wide() }
    }

    fn who(&mut self, district: District) -> Who {
        match self.draw.percent(BY_NAME) {
            true => Who::Name { district, last: last_name(self.nurands.last_name.draw(&mut self.draw)) },
            false => Who::Number(Customer { district, number: self.nurands.customer.draw(&mut self.draw) }),
        }
    }

    /// Any district of the terminal's warehouse.
    fn district(&mut self) -> District {
        District { number: self.draw.uniform(1..=DISTRICTS), ..self.home }
    }

    /// Any warehouse but the terminal's own, if there is another.
    fn other_warehouse(&mut self) -> u32 {
        if self.scale.warehouses == 1 {
            return self.home.warehouse;
        }
        let other = self.draw.uniform(1..=self.scale.warehouses - 1);
        if other < self.home.warehouse { other } else { other + 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MANY: usize = 20_000;

    fn terminal(warehouses: u32, number: u32) -> Terminal {
        let scale = Scale::new(warehouses, 1.0);
        Terminal::new(Draw::new(1, number.into()), scale, NuRands::of_run(&scale, 1), number, 1)
    }

    fn percent(count: usize, of: usize) -> f64 {
        100.0 * count as f64 / of as f64
    }

    #[test]
    fn orders_are_of_the_home_warehouse_with_one_remote_line_in_a_hundred_and_one_wrong_item_in_a_hundred_orders() {
        let mut terminal = terminal(3, 1);
        let orders: Vec<NewOrder> = (0..MANY).map(|_| terminal.new_order()).collect();
        assert!(orders.iter().all(|order| order.customer.district.warehouse == 2));
        let lengths: BTreeSet<usize> = orders.iter().map(|order| order.lines.len()).collect();
        assert_eq!(lengths, (5..=15).collect());
        let lines: Vec<&Line> = orders.iter().flat_map(|order| &order.lines).collect();
        let remote = lines.iter().filter(|line| line.supply != 2).count();
        assert!((0.8..1.2).contains(&percent(remote, lines.len())), "{remote}");
        assert_eq!(lines.iter().map(|line| line.supply).collect::<BTreeSet<_>>(), [1, 2, 3].into());
        let wrong = |order: &&NewOrder| order.lines.iter().any(|line| line.item > 100_000);
        let wrong: Vec<&NewOrder> = orders.iter().filter(wrong).collect();
        assert!((0.7..1.3).contains(&percent(wrong.len(), MANY)), "{}", wrong.len());
        assert!(wrong.iter().all(|order| order.lines.iter().rev().skip(1).all(|line| line.item <= 100_000)));
        assert!(lines.iter().all(|line| (1..=10).contains(&line.quantity) && line.item >= 1));
    }

    #[test]
    fn payments_are_by_name_in_60_percent_and_remote_in_15() {
        let mut terminal = terminal(3, 0);
        let payments: Vec<Payment> = (0..MANY).map(|_| terminal.payment()).collect();
        let by_name = payments.iter().filter(|payment| matches!(payment.who, Who::Name { .. })).count();
        assert!((58.0..62.0).contains(&percent(by_name, MANY)), "{by_name}");
        let of = |payment: &Payment| match &payment.who {
            Who::Name { district, .. } => *district,
            Who::Number(customer) => customer.district,
        };
        let remote: Vec<&Payment> = payments.iter().filter(|payment| of(payment).warehouse != 1).collect();
        assert!((14.0..16.0).contains(&percent(remote.len(), MANY)), "{}", remote.len());
        assert!(remote.iter().any(|payment| of(payment).number != payment.to.number));
        let local = payments.iter().filter(|payment| of(payment).warehouse == 1);
        assert!(local.clone().all(|payment| of(payment) == payment.to));
        assert!(payments.iter().all(|payment| payment.to.warehouse == 1 && payment.history_id < 0));
        assert!(payments.iter().all(|payment| (100..=500_000).contains(&payment.amount_cents)));
        assert_eq!(payments.iter().map(|payment| payment.history_id).collect::<BTreeSet<_>>().len(), MANY);
    }

    #[test]
    fn with_one_warehouse_nothing_is_remote() {
        let mut terminal = terminal(1, 5);
        for _ in 0..2_000 {
            assert!(terminal.new_order().lines.iter().all(|line| line.supply == 1));
            let payment = terminal.payment();
            assert!(!matches!(&payment.who, Who::Name { district, .. } if *district != payment.to));
        }
    }

    #[test]
    fn terminals_have_homes_of_their_own_and_ask_for_these() {
        let homes: BTreeSet<District> = (0..30).map(|number| terminal(3, number).home).collect();
        assert_eq!(homes.len(), 30);
        let mut terminal = terminal(3, 4);
        let mut thresholds = BTreeSet::new();
        for _ in 0..1_000 {
            let Input::StockLevel(input) = terminal.input(Kind::StockLevel) else { panic!("another kind") };
            assert_eq!(input.district, District { warehouse: 2, number: 2 });
            thresholds.insert(input.threshold);
        }
        assert_eq!(thresholds, (10..=20).collect());
    }

    #[test]
    fn every_kind_has_its_input() {
        let mut terminal = terminal(2, 0);
        for kind in Kind::ALL {
            assert_eq!(terminal.input(kind).kind(), kind);
        }
    }
}
