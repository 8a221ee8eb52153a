//! Steps of a server that joins: it asks the others for their epochs, and enters the largest one
//! (`joining`).

use super::{
    event::Command,
    flaw::Flaw,
    id::{Epoch, Incarnation, ServerId},
    joining::Joining,
    journal::Context,
    message::{JOINING_QUESTION, Message, SnapshotMessage},
    snapshot::reserve_surely,
};

/// Takes the steps that are possible now. A server asks once it has a name for its life.
pub(super) fn go_on(ctx: &mut Context<'_>, life: Option<Incarnation>) {
    let Some(life) = life else { return };
    if let Joining::Asking(asking) = &mut *ctx.joining {
        if std::mem::take(&mut asking.is_due) {
            asking.ask_at_ms = ctx.now_ms.saturating_add(ctx.config.vote_resend_ms);
            let message = Message::Snapshot(SnapshotMessage::Ask { by: life, number: JOINING_QUESTION });
            let question = |to: &ServerId| Command::Send { to: *to, message: message.clone() };
            ctx.out.commands.extend(asking.missing.iter().map(question));
        }
        if asking.missing.is_empty() {
            *ctx.joining = Joining::Entering(asking.epoch);
        }
    }
    if let Joining::Entering(epoch) = *ctx.joining
        && enter(ctx, epoch)
    {
        *ctx.joining = Joining::Joined;
    }
}

/// Enters the epoch once it is durably reserved. Returns whether it has.
fn enter(ctx: &mut Context<'_>, epoch: Epoch) -> bool {
    if ctx.config.has(Flaw::UnmetInFirstEpoch) {
        return true;
    }
    reserve_surely(ctx, epoch);
    let is_reserved = ctx.epochs.is_reserved(epoch);
    if is_reserved {
        ctx.epochs.enter(epoch);
    }
    is_reserved
}
