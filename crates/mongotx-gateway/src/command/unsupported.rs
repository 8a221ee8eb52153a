//! Commands that are refused as late as any other fails: after their session's fields were read.

use super::parts::call::Call;
use crate::{
    failure::{Answer, Failure, codes},
    reply::Reply,
};

/// Refuses `renameCollection`.
pub(super) async fn rename_collection(_: &mut Call<'_>) -> Answer<Reply> {
    let message = "renameCollection is not supported: transactions under way would lose what they have written there";
    Err(Failure::new(codes::COMMAND_NOT_SUPPORTED, message))
}
