//! One terminal at work: deals its transactions like cards, types, tries them again after
//! conflicts, and thinks. The transactions are in `tx`.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use bson::DateTime;

use super::{
    deck::{Deck, think_time},
    draw::Draw,
    input::{Input, Terminal},
    kind::Kind,
    natural::Natural,
    nurand::NuRands,
    options::TpccOptions,
    tx::{delivery, new_order, order_status, payment, stock_level, work::Work},
};
use crate::{
    error::OpResult,
    targets::Session,
    workload::{Chosen, Client, ClientId, Done},
};

/// The deck's cards and the times to think are drawn apart from the inputs: neither changes the
/// other.
const CARDS: u64 = 1;
const INPUTS: u64 = 2;
/// Effect with the number of orders made, for the check.
pub(super) const ORDERS: &str = "orders";
/// Effect with the sum of all payments in cents, for the check.
pub(super) const PAID_CENTS: &str = "paid cents";

pub(super) struct TpccClient {
    options: TpccOptions,
    deck: Deck,
    cards: Draw,
    terminal: Terminal,
    input: Input,
    /// Kind of the last transaction, whose answer is still looked at.
    before: Option<Kind>,
    /// Effects of acknowledged transactions: orders made, cents paid.
    orders: u64,
    paid_cents: u64,
}

impl TpccClient {
    pub(super) fn new(options: &TpccOptions, id: ClientId) -> Self {
        let scale = options.scale();
        let nurands = NuRands::of_run(&scale, options.constants_seed);
        let inputs = Draw::new(id.seed, INPUTS);
        let mut terminal = Terminal::new(inputs, scale, nurands, id.index, options.rollback_percent);
        let input = terminal.input(Kind::NewOrder);
        let cards = Draw::new(id.seed, CARDS);
        Self {
            options: options.clone(),
            deck: Deck::default(),
            cards,
            terminal,
            input,
            before: None,
            orders: 0,
            paid_cents: 0,
        }
    }

    /// Time that the user needs before this transaction begins: to think about the last answer, and
    /// to type.
    fn wait(&mut self, kind: Kind) -> Duration {
        if self.options.think_time == 0.0 {
            return Duration::ZERO;
        }
        let thought = self.before.map_or(Duration::ZERO, |before| think_time(before, &mut self.cards));
        (thought + kind.keying_time()).mul_f64(self.options.think_time)
    }
}

#[async_trait]
impl Client for TpccClient {
    fn choose(&mut self) -> Chosen {
        let kind = self.deck.deal(&mut self.cards);
        self.input = self.terminal.input(kind);
        let wait = self.wait(kind);
        self.before = Some(kind);
        Chosen { kind: kind.name(), operations: 1, wait }
    }

    async fn attempt(&mut self, session: &mut dyn Session) -> OpResult<Done> {
        session.begin(&self.options.transaction(self.input.kind())).await?;
        let mut natural = Natural(&mut *session);
        let session: &mut dyn Session = match self.options.natural_keys {
            true => &mut natural,
            false => &mut *natural.0,
        };
        let mut work = Work { session: &mut *session, how: self.options.how() };
        let at = DateTime::now();
        let mut is_wrong = false;
        match &self.input {
            Input::NewOrder(input) => is_wrong = new_order::run_new_order(&mut work, input, at).await?.wrong_item,
            Input::Payment(input) => _ = payment::run_payment(&mut work, input, at).await?,
            Input::OrderStatus(who) => _ = order_status::run_order_status(&mut work, who).await?,
            Input::Delivery(input) => _ = delivery::run_delivery(&mut work, input, at).await?,
            Input::StockLevel(input) => _ = stock_level::run_stock_level(&mut work, input).await?,
        }
        if is_wrong {
            session.rollback().await?;
            return Ok(Done::RolledBack);
        }
        session.commit().await?;
        match &self.input {
            Input::NewOrder(_) => self.orders += 1,
            Input::Payment(input) => self.paid_cents += input.amount_cents.unsigned_abs(),
            _ => {}
        }
        Ok(Done::Committed)
    }

    fn effects(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([(ORDERS, self.orders), (PAID_CENTS, self.paid_cents)])
    }
}
