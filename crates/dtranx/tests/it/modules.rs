//! Test of the dependencies among DTranx's modules, which must not form a circle.

#[test]
fn modules_use_each_other_in_one_direction() {
    modcheck::assert_no_circles(env!("CARGO_MANIFEST_DIR"));
}
