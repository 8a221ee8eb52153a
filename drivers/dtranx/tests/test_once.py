"""A commit is carried out once: what the client sends again, under which name, and when it gives
up.

The server is a script: it says what a server could say, and looks at what the client sends.
"""

import socket
import threading
import unittest
from unittest import mock

from dtranx import Client, EndedError, RefusedError, Tranx, UnavailableError, UnknownError
from dtranx.codec import decode, encode
from dtranx.frames import Incoming, frame, preface
from dtranx.messages import (
    V4,
    ClientName,
    ClientWelcome,
    Cluster,
    Committed,
    CommitReply,
    Get,
    Hash,
    Hello,
    Indeterminate,
    Item,
    Made,
    NotWelcome,
    Overloaded,
    Refused,
    RefusedReply,
    Request,
    RequestName,
    RequestOutcome,
    Response,
    Restarted,
    SnapshotReply,
    SnapshotTooOld,
    Values,
    Version,
    Welcome,
    Write,
)

LIMIT_S = 20
FIRST, OTHER = ClientName(1, 1), ClientName(2, 1)
STORE, OTHER_STORE = bytes(16), bytes([1] * 16)
VERSION = Version(1, 5)
COMMITTED = CommitReply(Committed(VERSION))
RESTARTED = CommitReply(Refused(Restarted(1)))
OVERLOADED = CommitReply(Refused(Overloaded("the log")))


class Once(unittest.TestCase):
    def setUp(self):
        self._listener = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        self._listener.settimeout(LIMIT_S)
        # What each connection's hello named as the client's name, and the requests that came over
        # it.
        self.heard: list[tuple[ClientName | None, list[Request]]] = []

    def serve(self, *connections):
        """Serves one connection after the other: the name that it gives (or its refusal), what it
        does with each request, and its store, if that is not the first one. It answers a request
        so, or breaks the connection (`None`). A list has answers to earlier requests: how many ids
        before, and the answer."""
        thread = threading.Thread(target=self._serve, args=[connections])
        thread.start()
        self.addCleanup(thread.join, LIMIT_S)

    def _serve(self, connections):
        port = self._listener.getsockname()[1]
        cluster = Cluster("script", [(1, V4(b"\x7f\0\0\1", port))], Hash([1]))
        for name, answers, *store in connections:
            stream, _ = self._listener.accept()
            with stream:
                stream.settimeout(LIMIT_S)
                incoming, requests = Incoming(), []
                stream.sendall(preface())
                while not incoming.preface():
                    incoming.add(self._received(stream))
                hello = decode(Hello, self._payload(stream, incoming))
                self.heard.append((hello.caller.name, requests))
                welcome = name if isinstance(name, NotWelcome) else ClientWelcome(name, 1, *(store or [STORE]), cluster, 0, 16)
                stream.sendall(frame(encode(welcome, Welcome)))
                for answer in answers:
                    requests.append(decode(Request, self._payload(stream, incoming)))
                    for id_before, reply in answer if isinstance(answer, list) else [(0, answer)]:
                        if reply is not None:
                            stream.sendall(frame(encode(Response(requests[-1].id - id_before, reply))))

    def _payload(self, stream, incoming):
        while (payload := incoming.payload()) is None:
            incoming.add(self._received(stream))
        return payload

    @staticmethod
    def _received(stream):
        data = stream.recv(4096)
        if not data:
            raise ConnectionError("the client closed the connection")
        return data

    def client(self) -> Client:
        return self.enterContext(Client([self._listener.getsockname()], request_s=LIMIT_S))

    def put(self, client: Client) -> Version:
        tranx = client.begin()
        tranx.put(b"k", b"v")
        return tranx.commit()

    def test_a_commit_without_an_answer_is_sent_again_under_the_same_name_and_id(self):
        self.serve((FIRST, []), (FIRST, [None]), (FIRST, [CommitReply(Committed(VERSION))]))
        self.assertEqual(self.put(self.client()), VERSION)
        (_, [first]), (name, [second]) = self.heard[1:]
        self.assertEqual((name, second.id, second.ask), (FIRST, first.id, first.ask))
        self.assertEqual((first.repeated, second.repeated), (False, True))

    def test_a_commit_is_not_sent_under_another_name_but_asked_after(self):
        held = Values([Item(b"v", VERSION), Item(b"v", Version(2, 9))])
        self.serve((FIRST, []), (FIRST, [held, None]), (OTHER, [COMMITTED, COMMITTED]))
        client = self.client()
        tranx = client.begin()
        tranx.multi_get([b"k", b"l"])
        tranx.put(b"k", b"v")
        self.assertEqual(tranx.commit(), VERSION)
        # The next request goes out under the new name.
        self.assertEqual(self.put(client), VERSION)
        (_, [_, first]), (name, [question, second]) = self.heard[1:]
        self.assertEqual((name, question.id, question.repeated), (FIRST, first.id, False))
        self.assertEqual(question.ask, RequestOutcome(RequestName(FIRST, first.id), VERSION.number))
        self.assertEqual((type(second.ask), second.repeated), (type(first.ask), False))
        self.assertGreater(second.id, first.id)

    def test_a_question_is_asked_again_under_a_third_name_and_when_there_was_no_room(self):
        full = RefusedReply("requests that wait at the server")
        self.serve((FIRST, []), (FIRST, [None]), (OTHER, [None]), (ClientName(3, 1), [full, COMMITTED]))
        with mock.patch("dtranx.connection.LAST_WAIT_S", 0.05):
            self.assertEqual(self.put(self.client()), VERSION)
        (_, [first]), (_, [question]), (_, again) = self.heard[1:]
        self.assertEqual({question.ask, *(request.ask for request in again)}, {RequestOutcome(RequestName(FIRST, first.id), 0)})

    def test_a_commit_that_the_server_never_got_is_refused_and_made_again(self):
        self.serve((FIRST, []), (FIRST, [None]), (OTHER, [RESTARTED, COMMITTED]))
        self.client().put(b"k", b"v")
        (_, [first]), (_, [question, second]) = self.heard[1:]
        self.assertIsInstance(question.ask, RequestOutcome)
        self.assertEqual(second.ask.transaction, first.ask.transaction)

    def test_a_commit_of_which_the_server_cannot_know_is_unknown(self):
        self.serve((FIRST, []), (FIRST, [None]), (OTHER, [CommitReply(Indeterminate())]))
        with self.assertRaises(UnknownError):
            self.put(self.client())

    def test_a_body_that_raised_an_error_and_an_unanswered_validation_have_written_nothing(self):
        self.serve((FIRST, []), (FIRST, [Values([None]), None]), (OTHER, [CommitReply(Indeterminate())]))

        def body(tranx):
            tranx.get(b"k")
            tranx.put(b"k", b"v")
            raise RuntimeError("too little")

        with self.assertRaises(UnavailableError) as raised:
            self.client().transact(body)
        self.assertIsInstance(raised.exception.__cause__, RuntimeError)

    def test_a_name_of_an_earlier_life_is_not_taken_while_a_commit_waits(self):
        earlier = ClientName(0, 1)
        self.serve((FIRST, []), (FIRST, [None]), (earlier, []), (FIRST, [COMMITTED]))
        self.assertEqual(self.put(self.client()), VERSION)
        self.assertEqual([name for name, _ in self.heard], [None, None, FIRST, FIRST])

    def test_the_refusal_of_a_first_copy_is_not_the_answer_to_the_second(self):
        self.serve((FIRST, []), (FIRST, [None, [(0, OVERLOADED), (0, COMMITTED)]]))
        client = self.client()
        with mock.patch("dtranx.connection.RESEND_S", 0.05):
            self.assertEqual(self.put(client), VERSION)
        [first, second] = self.heard[1][1]
        self.assertEqual((second.id, first.repeated, second.repeated), (first.id, False, True))

    def test_a_refusal_that_the_server_remembers_is_the_answer(self):
        self.serve((FIRST, []), (FIRST, [None, OVERLOADED, OVERLOADED]))
        client = self.client()
        with mock.patch("dtranx.connection.RESEND_S", 0.05), self.assertRaises(RefusedError):
            self.put(client)

    def test_the_refusal_of_a_first_copy_may_come_over_the_next_connection(self):
        self.serve((FIRST, []), (FIRST, [None]), (FIRST, [[(0, OVERLOADED), (0, COMMITTED)]]))
        self.assertEqual(self.put(self.client()), VERSION)

    def test_a_second_refusal_over_the_next_connection_is_the_answer(self):
        self.serve((FIRST, []), (FIRST, [None]), (FIRST, [OVERLOADED, OVERLOADED]))
        client = self.client()
        with mock.patch("dtranx.connection.RESEND_S", 0.05), self.assertRaises(RefusedError):
            self.put(client)

    def test_a_commit_without_an_answer_is_unknown_though_the_server_refuses_the_client_then(self):
        self.serve((FIRST, []), (FIRST, [None]), (NotWelcome("another cluster", False), []))
        with self.assertRaises(UnknownError):
            self.put(self.client())

    def test_a_connection_that_has_ended_meanwhile_is_not_used(self):
        self.serve((FIRST, []), (FIRST, [Values([None])]), (OTHER, [COMMITTED]))
        client = self.client()
        client.begin().get(b"k")
        # Waits until the connection has ended.
        [link] = client._links.values()
        self.assertEqual(link._stream.recv(1, socket.MSG_PEEK), b"")
        self.assertEqual(self.put(client), VERSION)
        self.assertFalse(self.heard[2][1][0].repeated)

    def test_what_was_read_of_another_store_is_not_committed(self):
        old, new = (Values([Item(value, VERSION)]) for value in (b"old", b"new"))
        self.serve((FIRST, []), (FIRST, [old]), (FIRST, [new, COMMITTED], OTHER_STORE))
        client, seen = self.client(), []
        known = client.map

        def copy(tranx: Tranx) -> None:
            seen.append(tranx.get(b"k"))
            tranx.put(b"l", seen[-1])
            if len(seen) == 1:
                # Waits until the connection has ended.
                [link] = client._links.values()
                self.assertEqual(link._stream.recv(1, socket.MSG_PEEK), b"")

        client.transact(copy)
        self.assertEqual(seen, [b"old", b"new"])
        _, commit = self.heard[2][1]
        self.assertEqual(commit.ask.transaction.writes, [Write(b"l", b"new")])
        self.assertIsNot(client.map, known)

    def test_a_commit_that_was_sent_to_a_store_that_is_gone_is_unknown(self):
        self.serve((FIRST, []), (FIRST, [None]), (FIRST, [COMMITTED], OTHER_STORE))
        client = self.client()
        with self.assertRaises(UnknownError):
            self.put(client)
        self.assertEqual(self.put(client), VERSION)

    def test_a_snapshot_of_another_store_is_gone(self):
        held = Values([Item(b"v", VERSION)])
        self.serve((FIRST, []), (FIRST, [SnapshotReply(Made(9)), held]), (FIRST, [held], OTHER_STORE))
        snapshot = self.client().snapshot()
        self.assertEqual(snapshot.get(b"k"), b"v")
        with self.assertRaises(RefusedError) as refused:
            snapshot.get(b"k")
        self.assertIsInstance(refused.exception.refusal, SnapshotTooOld)

    def test_a_transaction_is_committed_again_only_after_a_refusal(self):
        self.serve((FIRST, []), (FIRST, [OVERLOADED, COMMITTED, CommitReply(Indeterminate())]))
        client = self.client()
        tranx = client.begin()
        tranx.put(b"k", b"v")
        with self.assertRaises(RefusedError):
            tranx.commit()
        self.assertEqual(tranx.commit(), VERSION)
        unknown = client.begin()
        unknown.put(b"k", b"v")
        with self.assertRaises(UnknownError):
            unknown.commit()
        for ended in tranx, unknown:
            with self.assertRaises(EndedError):
                ended.commit()
        self.assertEqual(len(self.heard[1][1]), 3)

    def test_a_read_is_asked_again_under_any_name(self):
        held = Values([Item(b"v", VERSION)])
        self.serve((FIRST, []), (FIRST, [None]), (OTHER, [held]))
        self.assertEqual(self.client().begin().get(b"k"), b"v")
        self.assertEqual(self.heard[2][1][0].ask, Get([b"k"]))

    def test_indeterminate_is_unknown(self):
        self.serve((FIRST, []), (FIRST, [CommitReply(Indeterminate())]))
        with self.assertRaises(UnknownError):
            self.put(self.client())

    def test_an_answer_to_another_request_is_ignored(self):
        again_and_now = [(1, Values([None])), (0, Values([Item(b"v", VERSION)]))]
        self.serve((FIRST, []), (FIRST, [Values([None]), again_and_now]))
        client = self.client()
        self.assertIsNone(client.begin().get(b"k"))
        self.assertEqual(client.begin().get(b"k"), b"v")

    def test_a_server_that_cannot_be_reached_has_committed_nothing(self):
        self.serve((FIRST, []))
        client = self.client()
        self._listener.close()
        client.request_s = 0.2
        with self.assertRaises(UnavailableError):
            self.put(client)


if __name__ == "__main__":
    unittest.main()
