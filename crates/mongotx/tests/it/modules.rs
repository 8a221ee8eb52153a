//! The modules of `mongotx` use each other in one direction, but for those that are listed here.

use modcheck::Known;

/// Circles that stay for now.
const KNOWN: [Known; 1] = [Known {
    parent: "command",
    modules: &["aggregate", "count", "distinct", "fetch", "find", "output", "repeatable", "update", "validated"],
    reason: "the commands of MongoDB run each other: a pipeline writes by updates, an update selects by queries",
}];

#[test]
fn modules_use_each_other_in_one_direction() {
    modcheck::assert_no_circles_but(env!("CARGO_MANIFEST_DIR"), &KNOWN);
}
