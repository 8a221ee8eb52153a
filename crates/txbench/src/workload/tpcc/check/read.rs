//! Reads a database of any layout into a `State`, outside transactions and while no client is at
//! work. The conditions are compared by the module above.

use bson::{Bson, Document, doc};

use super::state::{CustomerState, DistrictState, LinesState, OrderState, State};
use crate::{
    error::OpResult,
    targets::{Find, Session},
    workload::tpcc::{
        ids::{Customer, District, Order},
        scale::{DISTRICTS, Scale},
        schema::{CUSTOMER, DISTRICT, HISTORY, NEW_ORDER, ORDER, ORDER_LINE, Schema, WAREHOUSE},
        tx::work::{documents, number},
    },
};

/// Reads everything, outside a transaction: nothing may be in flight.
///
/// # Errors
/// The target's errors; [`crate::error::OpError::Fatal`] for a row without its fields.
pub async fn read(session: &mut dyn Session, schema: Schema, scale: &Scale) -> OpResult<State> {
    let mut reader = Reader { session, schema, state: State::default() };
    reader.warehouses().await?;
    for warehouse in 1..=scale.warehouses {
        for number in 1..=DISTRICTS {
            reader.district(District { warehouse, number }).await?;
        }
        if schema != Schema::Denormalized {
            reader.history(warehouse).await?;
        }
    }
    Ok(reader.state)
}

struct Reader<'a> {
    session: &'a mut dyn Session,
    schema: Schema,
    state: State,
}

impl Reader<'_> {
    async fn find(&mut self, collection: &str, filter: Document, fields: &[&str]) -> OpResult<Vec<Document>> {
        let fields: Document = fields.iter().map(|field| ((*field).to_owned(), Bson::Int32(1))).collect();
        self.session.find(collection, Find::new(filter).project(fields)).await
    }

    /// Reads all warehouses and all districts.
    async fn warehouses(&mut self) -> OpResult<()> {
        for row in self.find(WAREHOUSE, doc! {}, &["W_ID", "W_YTD"]).await? {
            self.state.warehouses.insert(small(&row, "W_ID")?, number(&row, "W_YTD")?);
        }
        for row in self.find(DISTRICT, doc! {}, &["D_W_ID", "D_ID", "D_YTD", "D_NEXT_O_ID"]).await? {
            let state = DistrictState { ytd: number(&row, "D_YTD")?, next: number(&row, "D_NEXT_O_ID")? };
            self.state.districts.insert(district_of(&row, "D_W_ID", "D_ID")?, state);
        }
        Ok(())
    }

    /// Reads the rows of one district.
    async fn district(&mut self, district: District) -> OpResult<()> {
        let filter = of(district, "NO");
        for row in self.find(NEW_ORDER, filter, &["NO_O_ID"]).await? {
            self.state.new_orders.insert(Order { district, number: number(&row, "NO_O_ID")? });
        }
        self.customers(district).await?;
        match self.schema {
            Schema::Normalized => {
                self.orders(district, &[]).await?;
                self.lines(district).await
            }
            Schema::Recommended => self.orders(district, &["O_DELIVERY_D", "O_LINES.OL_AMOUNT"]).await,
            Schema::Denormalized => Ok(()),
        }
    }

    async fn customers(&mut self, district: District) -> OpResult<()> {
        const OWN: &[&str] = &["C_ID", "C_BALANCE", "C_YTD_PAYMENT", "C_DELIVERY_CNT"];
        const INSIDE: &[&str] = &[
            "C_HISTORY",
            "C_ORDERS.O_ID",
            "C_ORDERS.O_C_ID",
            "C_ORDERS.O_CARRIER_ID",
            "C_ORDERS.O_OL_CNT",
            "C_ORDERS.O_DELIVERY_D",
            "C_ORDERS.O_LINES.OL_AMOUNT",
        ];
        let fields = if self.schema == Schema::Denormalized { [OWN, INSIDE].concat() } else { OWN.to_vec() };
        for row in self.find(CUSTOMER, of(district, "C"), &fields).await? {
            let state = CustomerState {
                balance: number(&row, "C_BALANCE")?,
                ytd: number(&row, "C_YTD_PAYMENT")?,
                deliveries: number(&row, "C_DELIVERY_CNT")?,
            };
            self.state.customers.insert(Customer { district, number: small(&row, "C_ID")? }, state);
            for payment in documents(&row, "C_HISTORY") {
                self.payment(payment)?;
            }
            for order in documents(&row, "C_ORDERS") {
                self.order(district, order)?;
            }
        }
        Ok(())
    }

    async fn orders(&mut self, district: District, lines: &[&str]) -> OpResult<()> {
        let fields = [&["O_ID", "O_C_ID", "O_CARRIER_ID", "O_OL_CNT"], lines].concat();
        for row in self.find(ORDER, of(district, "O"), &fields).await? {
            self.order(district, &row)?;
        }
        Ok(())
    }

    /// An order, with its lines where they are in it.
    fn order(&mut self, district: District, row: &Document) -> OpResult<()> {
        let order = Order { district, number: number(row, "O_ID")? };
        let state = OrderState {
            customer: small(row, "O_C_ID")?,
            has_carrier: is_set(row, "O_CARRIER_ID"),
            line_count: number(row, "O_OL_CNT")?,
        };
        self.state.orders.insert(order, state);
        let is_delivered = is_set(row, "O_DELIVERY_D");
        for line in documents(row, "O_LINES") {
            self.line(order, is_delivered, number(line, "OL_AMOUNT")?);
        }
        Ok(())
    }

    async fn lines(&mut self, district: District) -> OpResult<()> {
        for row in self.find(ORDER_LINE, of(district, "OL"), &["OL_O_ID", "OL_DELIVERY_D", "OL_AMOUNT"]).await? {
            let order = Order { district, number: number(&row, "OL_O_ID")? };
            self.line(order, is_set(&row, "OL_DELIVERY_D"), number(&row, "OL_AMOUNT")?);
        }
        Ok(())
    }

    fn line(&mut self, order: Order, is_delivered: bool, amount: i64) {
        let lines: &mut LinesState = self.state.lines.entry(order).or_default();
        lines.count += 1;
        if is_delivered {
            lines.delivered += 1;
            lines.delivered_amount += amount;
        }
    }

    /// Reads the payments to a warehouse.
    async fn history(&mut self, warehouse: u32) -> OpResult<()> {
        const FIELDS: &[&str] = &["H_W_ID", "H_D_ID", "H_C_W_ID", "H_C_D_ID", "H_C_ID", "H_AMOUNT"];
        for row in self.find(HISTORY, doc! {"H_W_ID": i64::from(warehouse)}, FIELDS).await? {
            self.payment(&row)?;
        }
        Ok(())
    }

    fn payment(&mut self, row: &Document) -> OpResult<()> {
        let amount = number(row, "H_AMOUNT")?;
        let by = Customer { district: district_of(row, "H_C_W_ID", "H_C_D_ID")?, number: small(row, "H_C_ID")? };
        *self.state.paid_to.entry(district_of(row, "H_W_ID", "H_D_ID")?).or_default() += amount;
        *self.state.paid_by.entry(by).or_default() += amount;
        Ok(())
    }
}

/// The rows of a district in a table with this prefix.
fn of(district: District, prefix: &str) -> Document {
    let (warehouse, number) = (i64::from(district.warehouse), i64::from(district.number));
    doc! {format!("{prefix}_W_ID"): warehouse, format!("{prefix}_D_ID"): number}
}

fn district_of(row: &Document, warehouse: &str, number: &str) -> OpResult<District> {
    Ok(District { warehouse: small(row, warehouse)?, number: small(row, number)? })
}

fn small(row: &Document, field: &str) -> OpResult<u32> {
    number(row, field).map(|number| u32::try_from(number).unwrap_or_default())
}

fn is_set(row: &Document, field: &str) -> bool {
    !matches!(row.get(field), None | Some(Bson::Null))
}
