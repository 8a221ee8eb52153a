//! The twelve conditions (clauses 3.3.2.1 to 3.3.2.12).
//!
//! The eleventh is stated for the state after the load, when nothing has been delivered by a
//! transaction; deliveries are added here, so that it can be checked at any time.

use std::{collections::BTreeMap, ops::Bound::Included};

use super::{
    Violation,
    state::{LinesState, State},
};
use crate::workload::tpcc::{
    ids::{Customer, District, Order},
    scale::Scale,
};

/// Number of violations that are listed for one condition.
const MOST: usize = 100;

/// All violations of the consistency conditions.
pub fn violations(state: &State, scale: &Scale) -> Vec<Violation> {
    let facts = Facts::of(state);
    let mut found = Found::default();
    for (warehouse, ytd) in &state.warehouses {
        of_warehouse(&mut found, state, *warehouse, *ytd);
    }
    for (district, of) in &state.districts {
        of_district(&mut found, state, &facts, *district, of.next, of.ytd, scale);
    }
    of_orders(&mut found, state);
    of_customers(&mut found, state, &facts);
    found.all
}

/// Checks conditions 1 and 8.
fn of_warehouse(found: &mut Found, state: &State, warehouse: u32, ytd: i64) {
    let districts: i64 = of(&state.districts, warehouse).map(|(_, district)| district.ytd).sum();
    found.expect(1, ytd, districts, || format!("warehouse {warehouse}: W_YTD and the sum of D_YTD"));
    let paid: i64 = of(&state.paid_to, warehouse).map(|(_, paid)| paid).sum();
    found.expect(8, ytd, paid, || format!("warehouse {warehouse}: W_YTD and the sum of H_AMOUNT"));
}

/// Checks conditions 2, 3, 4, 9 and 11.
fn of_district(
    found: &mut Found,
    state: &State,
    facts: &Facts,
    district: District,
    next: i64,
    ytd: i64,
    scale: &Scale,
) {
    let name = district_name(district);
    let fact = facts.districts.get(&district).copied().unwrap_or_default();
    found.expect(2, next - 1, fact.newest, || format!("{name}: D_NEXT_O_ID - 1 and the highest O_ID"));
    if let Some((oldest, newest)) = fact.new_orders {
        found.expect(2, next - 1, newest, || format!("{name}: D_NEXT_O_ID - 1 and the highest NO_O_ID"));
        found.expect(3, newest - oldest + 1, fact.new_order_count, || {
            format!("{name}: numbers from the lowest to the highest NO_O_ID, and rows in NEW-ORDER")
        });
    }
    found.expect(4, fact.line_counts, fact.lines, || format!("{name}: sum of O_OL_CNT and rows in ORDER-LINE"));
    let paid = state.paid_to.get(&district).copied().unwrap_or_default();
    found.expect(9, ytd, paid, || format!("{name}: D_YTD and the sum of H_AMOUNT"));
    let delivered = i64::from(scale.delivered()) + fact.deliveries;
    found.expect(11, fact.orders - fact.new_order_count, delivered, || {
        let first = scale.delivered();
        format!("{name}: rows in ORDER less rows in NEW-ORDER, and {first} with the sum of C_DELIVERY_CNT")
    });
}

/// Checks conditions 5, 6 and 7, which are about single orders.
fn of_orders(found: &mut Found, state: &State) {
    for (order, of) in &state.orders {
        let is_new = state.new_orders.contains(order);
        found.require(5, of.has_carrier != is_new, || {
            let (carrier, row) = (set(of.has_carrier), if is_new { "a row" } else { "no row" });
            format!("{}: O_CARRIER_ID is {carrier} and there is {row} in NEW-ORDER", order_name(*order))
        });
        let lines = state.lines.get(order).copied().unwrap_or_default();
        found.expect(6, of.line_count, lines.count, || {
            format!("{}: O_OL_CNT and rows in ORDER-LINE", order_name(*order))
        });
        let expected = if of.has_carrier { lines.count } else { 0 };
        found.expect(7, lines.delivered, expected, || {
            let carrier = set(of.has_carrier);
            format!("{}: lines with OL_DELIVERY_D, O_CARRIER_ID being {carrier}", order_name(*order))
        });
    }
    let lost = state.new_orders.iter().filter(|order| !state.orders.contains_key(order));
    for order in lost {
        found.require(5, false, || format!("{}: a row in NEW-ORDER and none in ORDER", order_name(*order)));
    }
    let lost = state.lines.keys().filter(|order| !state.orders.contains_key(order));
    for order in lost {
        found.require(6, false, || format!("{}: rows in ORDER-LINE and none in ORDER", order_name(*order)));
    }
}

/// Checks conditions 10 and 12.
fn of_customers(found: &mut Found, state: &State, facts: &Facts) {
    for (customer, of) in &state.customers {
        let delivered = facts.delivered_to.get(customer).copied().unwrap_or_default();
        let paid = state.paid_by.get(customer).copied().unwrap_or_default();
        found.expect(10, of.balance, delivered - paid, || {
            format!("{}: C_BALANCE and the sum of OL_AMOUNT less H_AMOUNT", customer_name(*customer))
        });
        found.expect(12, of.balance + of.ytd, delivered, || {
            format!("{}: C_BALANCE + C_YTD_PAYMENT and the sum of OL_AMOUNT", customer_name(*customer))
        });
    }
}

/// Sums that several conditions need.
#[derive(Default)]
struct Facts {
    districts: BTreeMap<District, DistrictFacts>,
    /// Sums of OL_AMOUNT of delivered lines.
    delivered_to: BTreeMap<Customer, i64>,
}

#[derive(Clone, Copy, Default)]
struct DistrictFacts {
    newest: i64,
    orders: i64,
    /// The lowest and the highest number.
    new_orders: Option<(i64, i64)>,
    new_order_count: i64,
    line_counts: i64,
    lines: i64,
    deliveries: i64,
}

impl Facts {
    fn of(state: &State) -> Self {
        let mut facts = Self::default();
        for (Order { district, number }, of) in &state.orders {
            let fact = facts.districts.entry(*district).or_default();
            fact.newest = fact.newest.max(*number);
            fact.orders += 1;
            fact.line_counts += of.line_count;
        }
        for Order { district, number } in &state.new_orders {
            let fact = facts.districts.entry(*district).or_default();
            let (oldest, newest) = fact.new_orders.unwrap_or((*number, *number));
            fact.new_orders = Some((oldest.min(*number), newest.max(*number)));
            fact.new_order_count += 1;
        }
        for (order, LinesState { count, delivered_amount, .. }) in &state.lines {
            facts.districts.entry(order.district).or_default().lines += count;
            if let Some(of) = state.orders.get(order) {
                let customer = Customer { district: order.district, number: of.customer };
                *facts.delivered_to.entry(customer).or_default() += delivered_amount;
            }
        }
        for (customer, of) in &state.customers {
            facts.districts.entry(customer.district).or_default().deliveries += of.deliveries;
        }
        facts
    }
}

#[derive(Default)]
struct Found {
    all: Vec<Violation>,
    counts: BTreeMap<u8, usize>,
}

impl Found {
    fn expect(&mut self, condition: u8, left: i64, right: i64, what: impl FnOnce() -> String) {
        self.require(condition, left == right, || format!("{}: {left} and {right}", what()));
    }

    fn require(&mut self, condition: u8, holds: bool, what: impl FnOnce() -> String) {
        if holds {
            return;
        }
        let count = self.counts.entry(condition).or_default();
        *count += 1;
        if *count <= MOST {
            self.all.push(Violation { condition, what: what() });
        }
    }
}

/// The entries of one warehouse in a map by districts.
fn of<V>(map: &BTreeMap<District, V>, warehouse: u32) -> impl Iterator<Item = (&District, &V)> {
    let from = District { warehouse, number: 0 };
    let to = District { warehouse, number: u32::MAX };
    map.range((Included(from), Included(to)))
}

fn set(is_set: bool) -> &'static str {
    if is_set { "set" } else { "null" }
}

fn district_name(District { warehouse, number }: District) -> String {
    format!("warehouse {warehouse}, district {number}")
}

fn order_name(Order { district, number }: Order) -> String {
    format!("{}, order {number}", district_name(district))
}

fn customer_name(Customer { district, number }: Customer) -> String {
    format!("{}, customer {number}", district_name(district))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::workload::tpcc::check::state::{CustomerState, DistrictState, OrderState};

    const DISTRICT: District = District { warehouse: 1, number: 1 };

    fn order(number: i64) -> Order {
        Order { district: DISTRICT, number }
    }

    fn customer(number: u32) -> Customer {
        Customer { district: DISTRICT, number }
    }

    /// One district of 30 customers with their first orders, 21 of them delivered, and one of these
    /// by a transaction.
    fn sound() -> (State, Scale) {
        let scale = Scale::new(1, 0.01);
        let mut state = State::default();
        for number in 1..=30 {
            let has_carrier = number <= 22;
            let delivered_amount = if number == 22 { 700 } else { 0 };
            let line_count = 5 + i64::from(number % 11);
            let lines =
                LinesState { count: line_count, delivered: if has_carrier { line_count } else { 0 }, delivered_amount };
            let of = i64::from(number);
            state.orders.insert(order(of), OrderState { customer: number, has_carrier, line_count });
            state.lines.insert(order(of), lines);
            if !has_carrier {
                state.new_orders.insert(order(of));
            }
            let deliveries = i64::from(number == 22);
            let of = CustomerState { balance: delivered_amount - 1_000, ytd: 1_000, deliveries };
            state.customers.insert(customer(number), of);
            state.paid_by.insert(customer(number), 1_000);
        }
        state.warehouses.insert(1, 30_000);
        state.districts.insert(DISTRICT, DistrictState { ytd: 30_000, next: 31 });
        state.paid_to.insert(DISTRICT, 30_000);
        (state, scale)
    }

    /// The conditions that are broken by `change`, with what is said of the first.
    fn broken(change: impl FnOnce(&mut State)) -> (BTreeSet<u8>, String) {
        let (mut state, scale) = sound();
        change(&mut state);
        let all = violations(&state, &scale);
        let said = all.first().map(ToString::to_string).unwrap_or_default();
        (all.into_iter().map(|violation| violation.condition).collect(), said)
    }

    fn district(state: &mut State) -> &mut DistrictState {
        state.districts.get_mut(&DISTRICT).unwrap()
    }

    #[test]
    fn a_sound_district_has_no_violations() {
        let (state, scale) = sound();
        assert_eq!(violations(&state, &scale), []);
    }

    #[test]
    fn each_condition_is_seen_to_be_broken() {
        let conditions = |change: fn(&mut State)| broken(change).0;
        assert_eq!(conditions(|state| _ = state.warehouses.insert(1, 30_001)), [1, 8].into());
        assert_eq!(conditions(|state| district(state).next += 1), [2].into());
        assert_eq!(conditions(|state| _ = state.new_orders.remove(&order(25))), [3, 5, 11].into());
        assert_eq!(conditions(|state| state.orders.get_mut(&order(3)).unwrap().line_count += 1), [4, 6].into());
        assert_eq!(conditions(|state| state.orders.get_mut(&order(30)).unwrap().has_carrier = true), [5, 7].into());
        assert_eq!(conditions(|state| state.lines.get_mut(&order(3)).unwrap().count -= 1), [4, 6, 7].into());
        assert_eq!(conditions(|state| state.lines.get_mut(&order(3)).unwrap().delivered -= 1), [7].into());
        assert_eq!(conditions(|state| *state.paid_to.get_mut(&DISTRICT).unwrap() += 5), [8, 9].into());
        assert_eq!(conditions(|state| district(state).ytd += 5), [1, 9].into());
        assert_eq!(conditions(|state| *state.paid_by.get_mut(&customer(3)).unwrap() += 5), [10].into());
        assert_eq!(conditions(|state| state.customers.get_mut(&customer(3)).unwrap().deliveries += 1), [11].into());
        assert_eq!(conditions(|state| state.customers.get_mut(&customer(3)).unwrap().ytd += 1), [12].into());
        assert_eq!(conditions(|state| state.customers.get_mut(&customer(3)).unwrap().balance += 1), [10, 12].into());
    }

    #[test]
    fn what_is_broken_says_where() {
        let (_, said) = broken(|state| _ = state.new_orders.remove(&order(25)));
        assert!(said.contains("3.3.2.3") && said.contains("warehouse 1, district 1"), "{said}");
        let (_, said) = broken(|state| state.customers.get_mut(&customer(7)).unwrap().ytd += 1);
        assert!(said.contains("3.3.2.12") && said.contains("customer 7"), "{said}");
    }

    #[test]
    fn rows_without_their_order_are_seen() {
        assert!(broken(|state| _ = state.orders.remove(&order(30))).0.is_superset(&[2, 5, 6].into()));
    }

    #[test]
    fn a_district_without_new_orders_needs_none() {
        let (broken, _) = broken(|state| {
            for (order, of) in &mut state.orders {
                if !of.has_carrier {
                    of.has_carrier = true;
                    let lines = state.lines.get_mut(order).unwrap();
                    lines.delivered = lines.count;
                    state.customers.get_mut(&customer(of.customer)).unwrap().deliveries += 1;
                }
            }
            state.new_orders.clear();
        });
        assert_eq!(broken, BTreeSet::new());
    }

    #[test]
    fn a_hundred_violations_of_a_condition_are_reported() {
        let (mut state, scale) = sound();
        state.new_orders.extend((100..1_000).map(order));
        let all = violations(&state, &scale);
        assert_eq!(all.iter().filter(|violation| violation.condition == 5).count(), MOST);
    }
}
