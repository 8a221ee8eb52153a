//! Tests of the queues and threads of the stages.
mod full;
mod relay;

use std::sync::Arc;
use std::time::{Duration, Instant};

use dtranx::stage::{Counters, Signal, queue};

use crate::limit::Limit;
use crate::stage::relay::Net;

#[test]
fn full_queue_refuses_and_gives_the_event_back() {
    let counters = Counters::new();
    let (inlet, source) = queue("q", 2, &Arc::new(Signal::new()), &counters);
    inlet.offer(1).unwrap();
    inlet.offer(2).unwrap();
    assert_eq!(inlet.offer(3), Err(3));
    let mut batch = Vec::new();
    assert_eq!(source.take(10, &mut batch), 2);
    assert_eq!(batch, [1, 2]);
    let reading = &counters.read().queues[0];
    assert_eq!((reading.refused, reading.longest, reading.length, reading.capacity), (1, 2, 0, 2));
}

#[test]
fn outlet_keeps_order_when_the_queue_is_full() {
    let _limit = Limit::of(30, "end of sending into a full queue");
    let counters = Counters::new();
    let (inlet, source) = queue("q", 1, &Arc::new(Signal::new()), &counters);
    let mut outlet = inlet.outlet();
    let mut batch = Vec::new();
    (1..=3).for_each(|event| outlet.send(event));
    assert!(!outlet.is_clear());
    source.take(10, &mut batch);
    // The queue has room again, but earlier events wait for it, so this one must not overtake them.
    outlet.send(4);
    for _ in 0..4 {
        outlet.flush();
        source.take(10, &mut batch);
    }
    assert_eq!(batch, [1, 2, 3, 4]);
    assert!(outlet.is_clear());
    assert_eq!(counters.read().queues[0].kept_back, 3);
}

#[test]
fn failure_of_one_stage_ends_all_and_is_reported() {
    let _limit = Limit::of(30, "end of the stages");
    let mut circle = Net::circle(2);
    circle.entries[1].offer(relay::FAILS).unwrap();
    let crew = circle.start();
    let begun = Instant::now();
    let error = loop {
        if let Err(error) = crew.wait(Duration::from_millis(100)) {
            break error;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no failure of a stage is reported");
    };
    assert_eq!(error.to_string(), "the b stage failed: no more");
    assert!(crew.is_over());
}
