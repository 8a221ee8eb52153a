//! The labels that the server gives to an error, by its code and the command's place in its
//! session.

use bson::{Document, RawArrayBuf, RawDocumentBuf, raw::cstr};

use super::info::Mode;
use crate::{
    failure::{Failure, RESUMABLE_CHANGE_STREAM_ERROR, RETRYABLE_WRITE_ERROR, codes},
    reply::Reply,
};

/// Errors after which a driver may send a write, or a statement's transaction, again.
const RETRIABLE: [i32; 14] = [6, 7, 89, 91, 134, 189, 262, 9_001, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436];
/// Errors of a snapshot that cannot be read any more, or of a lock that could not be had.
const TRANSIENT: [i32; 5] = [codes::WRITE_CONFLICT, 24, 246, 239, 267];

/// Errors of a change stream after which a driver may open it anew where it was.
const RESUMABLE: [i32; 17] =
    [6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9_001, 10_107, 11_600, 11_602, 13_388, 13_435, 13_436];

/// The failure of a change stream, with its label.
pub(crate) fn add_for_changes(failure: Failure) -> Failure {
    let is_resumable = RESUMABLE.contains(&failure.code);
    if is_resumable { failure.labelled(RESUMABLE_CHANGE_STREAM_ERROR) } else { failure }
}

/// Returns true if a driver may send a write again whose answer has this code as its
/// `writeConcernError`.
pub(crate) fn is_retriable(code: i64, mode: &Mode) -> bool {
    matches!(mode, Mode::Write(..)) && RETRIABLE.iter().any(|retriable| i64::from(*retriable) == code)
}

/// The server's reply to a write that it got without its number, with the label that it gives to
/// one with a number.
pub(crate) fn add_to_reply(reply: Reply, mode: &Mode) -> Reply {
    let body = reply.body();
    let code = match reply.is_ok() {
        true => body.get_document("writeConcernError").and_then(|missed| missed.get_i32("code")),
        false => body.get_i32("code"),
    };
    let is_new = matches!(body.get("errorLabels"), Ok(None));
    if !is_new || !code.is_ok_and(|code| is_retriable(code.into(), mode)) {
        return reply;
    }
    let mut body = body.to_owned();
    add_retryable(&mut body);
    body.into()
}

/// Adds the label of a write that may be sent again.
pub(crate) fn add_retryable(reply: &mut RawDocumentBuf) {
    let mut labels = RawArrayBuf::new();
    labels.push(RETRYABLE_WRITE_ERROR);
    reply.append(cstr!("errorLabels"), labels);
}

/// The failure with the labels that the server would give it. `ends`: the command commits or rolls
/// back.
pub(crate) fn add_for(failure: Failure, ends: bool, body: &Document) -> Failure {
    let code = failure.code;
    // The command fails in any case: wrong session fields are not reported as well.
    match Mode::take(&mut body.clone()).unwrap_or(Mode::Plain(None)) {
        Mode::Transaction { .. } => {
            let again = code == codes::NO_SUCH_TRANSACTION || !ends && RETRIABLE.contains(&code);
            let failure = if TRANSIENT.contains(&code) || again { failure.transient() } else { failure };
            if ends && RETRIABLE.contains(&code) { failure.labelled(RETRYABLE_WRITE_ERROR) } else { failure }
        }
        Mode::Write(..) if RETRIABLE.contains(&code) => failure.labelled(RETRYABLE_WRITE_ERROR),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Binary, doc, spec::BinarySubtype};

    use super::*;

    fn labels(code: i32, ends: bool, within: bool) -> Vec<&'static str> {
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: vec![1; 16] };
        let mut body = doc! {"lsid": {"id": id}, "txnNumber": 1_i64};
        if within {
            body.insert("autocommit", false);
        }
        add_for(Failure::new(code, ""), ends, &body).labels
    }

    #[test]
    fn replies_to_writes_that_had_a_number_get_the_label_of_those() {
        let lsid = super::super::Lsid { id: [1; 16], user: Vec::new() };
        let (write, plain) = (Mode::Write(lsid.clone(), 1), Mode::Plain(Some(lsid)));
        let labels = |reply: Document, mode: &Mode| {
            let reply = add_to_reply(reply.into(), mode);
            reply.body().get_array("errorLabels").map_or(0, |labels| labels.into_iter().count())
        };
        let missed = |code: i32| doc! {"n": 1, "writeConcernError": {"code": code}, "ok": 1.0};
        for (reply, labelled) in [
            (doc! {"ok": 0.0, "code": 10_107}, 1),
            (doc! {"ok": 0.0, "code": 91}, 1),
            (doc! {"ok": 0.0, "code": 9}, 0),
            (doc! {"ok": 0.0, "code": 91, "errorLabels": ["x"]}, 1),
            (doc! {"ok": 1.0, "n": 1}, 0),
            (missed(189), 1),
            (missed(100), 0),
        ] {
            assert_eq!(labels(reply.clone(), &write), labelled, "{reply}");
        }
        assert_eq!(labels(doc! {"ok": 0.0, "code": 91}, &plain), 0);
    }

    #[test]
    fn labels_are_the_servers() {
        assert_eq!(labels(112, false, true), ["TransientTransactionError"]);
        assert_eq!(labels(91, false, true), ["TransientTransactionError"]);
        assert_eq!(labels(91, true, true), ["RetryableWriteError"]);
        assert_eq!(labels(251, true, true), ["TransientTransactionError"]);
        assert_eq!(labels(91, false, false), ["RetryableWriteError"]);
        assert_eq!(labels(8, false, true), Vec::<&str>::new());
        assert_eq!(add_for_changes(Failure::new(89, "")).labels, ["ResumableChangeStreamError"]);
        assert_eq!(add_for_changes(Failure::new(286, "")).labels, Vec::<&str>::new());
    }
}
