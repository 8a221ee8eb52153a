//! The modules of `local-mongod` use each other in one direction.

#[test]
fn modules_use_each_other_in_one_direction() {
    modcheck::assert_no_circles(env!("CARGO_MANIFEST_DIR"));
}
