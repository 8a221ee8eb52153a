//! `configureFailPoint`, for the test suites of drivers. Only where test commands were enabled when
//! the gateway was started.

use super::parts::{body::Body, call::Call};
use crate::{
    fail_points::FailPoints,
    failure::{Answer, Failure, codes},
    fields::Fields,
};

/// Runs `configureFailPoint`, if test commands are allowed.
pub(super) async fn configure(call: &mut Call<'_>) -> Answer<Body> {
    if !call.context.options.has_test_commands() {
        let message = "configureFailPoint is a test command, and the gateway was started without them";
        return Err(Failure::new(codes::COMMAND_NOT_FOUND, message));
    }
    let fields = Fields::new("configureFailPoint", std::mem::take(&mut call.body));
    call.context.tx.fail_points.set(fields)?;
    Ok(Body::empty())
}

/// Reads the command, and sets nothing.
pub(super) fn check(fields: Fields) -> Answer<()> {
    FailPoints::default().set(fields)
}
