"""A link to one server: it connects, greets, sends requests, and repeats them over the next
connection. If the server gives another name then, it asks what became of a commit instead.

One request at a time. Whatever happens, a call ends at its deadline.
"""

import hashlib
import hmac
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from .cluster import addresses_of
from .codec import Unreadable, decode, encode
from .errors import NotWelcomeError, UnavailableError, UnknownError
from .frames import Incoming, frame, preface
from .messages import (
    Challenge,
    ClientName,
    ClientWelcome,
    Cluster,
    Commit,
    CommitAgain,
    CommitReply,
    Committed,
    Found,
    FoundAt,
    Hello,
    NotLeading,
    NotWelcome,
    OfClient,
    Overloaded,
    Proof,
    Refused,
    RefusedReply,
    Request,
    RequestName,
    RequestOutcome,
    Response,
    Stale,
    Values,
    Welcome,
)

CONNECT_S = 2.0
HANDSHAKE_S = 2.0
# Time after which a request without an answer is sent again, in seconds.
RESEND_S = 2.0
FIRST_WAIT_S = 0.02
LAST_WAIT_S = 0.5
CHUNK_BYTES = 64 << 10
# Most chunks of late answers that are read before the next request.
LATE_CHUNKS = 256


class Lost(Exception):
    """The connection is lost, or could not be made; a further one may be."""


class _NotLeading(Lost):
    """A member of a group does not lead."""

    def __init__(self, welcome: NotLeading):
        super().__init__("no member of the group is known to lead")
        self.welcome = welcome


class Link:
    """To one server, or to the member that leads a group: its members are called in turn. What it
    knows of the cluster it names, so that another server at its address is noticed."""

    def __init__(self, addresses: list[tuple[str, int]], secret: bytes | None = None):
        self._addresses, self._at = addresses, 0
        # Index of the configuration from which the addresses of a group's members are.
        self._addresses_of = 0
        self._secret = secret
        self._stream: socket.socket | None = None
        self._incoming = Incoming()
        self._name: ClientName | None = None
        self._last_id = 0
        # The store that the server had at the last connection.
        self._store: bytes | None = None
        # Largest number of the store's transactions that a reply has named.
        self._heard = 0
        # Name under which a commit was sent whose outcome is not known.
        self._awaited: ClientName | None = None
        # The cluster, the map and the server that its hello names.
        self.cluster, self.map, self.server = "", None, None
        self.welcome: ClientWelcome | None = None
        # Called when the server has another store than before.
        self.on_other_store: Callable[[], None] = lambda: None
        # Called with the cluster, as the server describes it, when that has welcomed the client.
        self.on_described: Callable[[Cluster], None] = lambda _: None

    def close(self) -> None:
        """Ends the connection. The next request makes another one."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    @property
    def _address(self) -> tuple[str, int]:
        return self._addresses[self._at]

    def discover(self, deadline: float) -> Cluster:
        """The cluster, as the server describes it; tries until the deadline."""
        try:
            return self.connect(deadline, is_leader=False).cluster
        except _NotLeading as member:
            return member.welcome.cluster

    def connect(self, deadline: float, is_leader: bool = True) -> ClientWelcome:
        """Connects and is welcomed; tries until the deadline. Unless it has to be a leader, a
        member that is none is enough."""
        wait = FIRST_WAIT_S
        while True:
            try:
                return self._meet()
            except (Lost, TimeoutError) as lost:
                self.close()
                if isinstance(lost, _NotLeading) and not is_leader:
                    raise
                self._go_on(lost.welcome.leads if isinstance(lost, _NotLeading) else None)
                if time.monotonic() + wait >= deadline:
                    raise UnavailableError(f"{self._address[0]}:{self._address[1]}: {lost}") from None
                time.sleep(wait)
                wait = min(2 * wait, LAST_WAIT_S)
            except BaseException:
                self.close()
                raise

    def _take_addresses(self, welcome: ClientWelcome | NotLeading) -> None:
        """Takes over the addresses of a group's members, if they are of a later configuration."""
        if self.server is not None and welcome.addresses_of > self._addresses_of:
            current = self._address
            self._addresses_of = welcome.addresses_of
            self._addresses = addresses_of(welcome.cluster, self.server)
            self._at = self._addresses.index(current) if current in self._addresses else 0

    def _go_on(self, leads: int | None = None) -> None:
        """To the member that is said to lead, or to the next one."""
        is_other = leads is not None and 1 <= leads <= len(self._addresses) and leads - 1 != self._at
        self._at = leads - 1 if is_other else (self._at + 1) % len(self._addresses)

    def ask(self, ask: Any, deadline: float) -> Any:
        """The reply to a request, which is sent again if need be. `UnknownError`: it may have been
        carried out."""
        is_commit = isinstance(ask, Commit | CommitAgain)
        try:
            reply = self._ask_surely(ask, is_commit, deadline)
        finally:
            self._awaited = None
        self._heard = max([self._heard, *self._numbers(reply)])
        return reply

    def _ask_surely(self, ask: Any, is_commit: bool, deadline: float) -> Any:
        # The store that the request is for: that of which the client has read, then the one that
        # got a copy.
        above, store = self._heard, self._store
        self._last_id += 1
        request_id, sent_as = self._last_id, None
        # The first copy may be refused yet, over this connection or a later one.
        may_refuse_first = True
        self._close_ended()
        while True:
            try:
                if self._stream is None:
                    self.connect(deadline)
                if is_commit and store not in (None, self._store):
                    if sent_as is None:
                        # What it has read was of a store that is gone.
                        return CommitReply(Refused(Stale([], None)))
                    raise UnknownError("the server that got it has another store now")
                is_question = isinstance(ask, RequestOutcome)
                if is_commit and not is_question and sent_as not in (None, self._name):
                    # The server would carry it out once more: it is asked what became of it.
                    ask, is_question = RequestOutcome(RequestName(sent_as, request_id), above), True
                payload = encode(Request(request_id, sent_as is not None and not is_question, ask))
                is_followed = sent_as is not None and may_refuse_first
                sent_as, store = self._name, self._store
                if is_commit:
                    self._awaited = sent_as
                self._send(frame(payload))
                until = min(deadline, time.monotonic() + RESEND_S)
                reply = self._answer(request_id, until)
                if is_followed and is_commit and _is_overloaded(reply):
                    # A refusal of the first copy: the server may have carried out the other one.
                    may_refuse_first = False
                    reply = self._answer(request_id, until)
                if is_question and isinstance(reply, RefusedReply):
                    # There was no room for the question, which says nothing about the commit.
                    time.sleep(LAST_WAIT_S)
                elif reply is not None:
                    return reply
                elif len(self._addresses) > 1:
                    # Another member may lead by now.
                    raise Lost("no answer came")
            except Lost:
                self.close()
                self._go_on()
            except (UnavailableError, NotWelcomeError) as error:
                if is_commit and sent_as is not None:
                    raise UnknownError(str(error)) from None
                raise
            if time.monotonic() >= deadline:
                failure = UnknownError if is_commit else UnavailableError
                raise failure(f"{self._address[0]}:{self._address[1]} did not answer in time")

    def _close_ended(self) -> None:
        """Closes a connection that has ended between two requests: what is sent over it would never
        arrive, and a commit would be unknown."""
        if self._stream is None:
            return
        try:
            self._stream.settimeout(0)
            for _ in range(LATE_CHUNKS):
                data = self._stream.recv(CHUNK_BYTES)
                if not data:
                    return self.close()
                self._incoming.add(data)
        except BlockingIOError:
            # Nothing more has come; the connection goes on.
            pass
        except OSError:
            self.close()

    def _meet(self) -> ClientWelcome:
        """One connection, one greeting."""
        try:
            self._stream = socket.create_connection(self._address, CONNECT_S)
            self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise Lost(str(error)) from None
        self._incoming = Incoming()
        until = time.monotonic() + HANDSHAKE_S
        nonce = secrets.token_bytes(16)
        hello = encode(Hello(self.cluster, self.map, self.server, OfClient(self._name), nonce))
        self._send(preface() + frame(hello))
        while not self._incoming.preface():
            self._receive(until)
        welcome = self._welcome(until)
        if isinstance(welcome, Challenge):
            self._send(frame(encode(Proof(self._prove(hello, welcome)))))
            welcome = self._welcome(until)
        elif self._secret is not None and isinstance(welcome, ClientWelcome | NotLeading):
            raise NotWelcomeError("the server has not shown that it knows the secret")
        if isinstance(welcome, NotWelcome):
            raise Lost(welcome.why) if welcome.is_temporary else NotWelcomeError(welcome.why)
        if isinstance(welcome, ClientWelcome | NotLeading):
            self.on_described(welcome.cluster)
            self._take_addresses(welcome)
        if isinstance(welcome, NotLeading):
            raise _NotLeading(welcome)
        if not isinstance(welcome, ClientWelcome):
            raise NotWelcomeError("it took a client for a server")
        self._take_name(welcome.name)
        self._take_store(welcome.store)
        self.welcome = welcome
        return welcome

    def _take_name(self, name: ClientName) -> None:
        """Takes over the name that the server gave. One of an earlier life than a commit waits for
        comes from a leader that others have replaced."""
        if self._awaited is not None and name.life < self._awaited.life:
            raise Lost("the server gave a name of an earlier life")
        self._name = name

    def _take_store(self, store: bytes) -> None:
        """Notes the store that the server has. The numbers of another one begin anew."""
        is_other = self._store not in (None, store)
        self._store = store
        if is_other:
            self._heard = 0
            self.on_other_store()

    def _numbers(self, reply: Any) -> list[int]:
        """Numbers of the server's transactions that a reply names."""
        match reply:
            case CommitReply(Committed(version)):
                versions = [version]
            case Values(items):
                versions = [item.version for item in items if item is not None]
            case Found(items) | FoundAt(items):
                versions = [item.version for _, item in items]
            case _:
                versions = []
        return [version.number for version in versions if version.server == self.server]

    def _prove(self, hello: bytes, challenge: Challenge) -> bytes:
        if self._secret is None:
            raise NotWelcomeError("the server asks for a secret, and none was given")

        def proof(side: bytes) -> bytes:
            return hmac.new(self._secret, side + challenge.nonce + hello, hashlib.sha256).digest()

        if not hmac.compare_digest(proof(b"dtranx called\0"), challenge.proof):
            raise NotWelcomeError("the server does not know the secret")
        return proof(b"dtranx caller\0")

    def _welcome(self, until: float) -> Any:
        return self._decode(Welcome, self._payload(until))

    def _answer(self, request_id: int, until: float) -> Any:
        """The reply to this request; nothing, if there is none until then. Others are for requests
        that are over."""
        while True:
            try:
                response = self._decode(Response, self._payload(until))
            except TimeoutError:
                return None
            if response.id == request_id:
                return response.reply

    def _payload(self, until: float) -> bytes:
        while True:
            try:
                payload = self._incoming.payload()
            except Unreadable as error:
                raise Lost(str(error)) from None
            if payload is not None:
                return payload
            self._receive(until)

    def _receive(self, until: float) -> None:
        """Waits for more."""
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the server takes too long to answer")
        try:
            self._stream.settimeout(left)
            data = self._stream.recv(CHUNK_BYTES)
        except TimeoutError:
            raise
        except OSError as error:
            raise Lost(str(error)) from None
        if not data:
            raise Lost("the server closed the connection")
        self._incoming.add(data)

    def _send(self, data: bytes) -> None:
        try:
            self._stream.settimeout(CONNECT_S)
            self._stream.sendall(data)
        except OSError as error:
            raise Lost(str(error)) from None

    @staticmethod
    def _decode(hint: Any, payload: bytes) -> Any:
        try:
            return decode(hint, payload)
        except Unreadable as error:
            raise Lost(f"a message cannot be understood: {error}") from None


def _is_overloaded(reply: Any) -> bool:
    """Whether a commit is refused for want of room."""
    is_refused = isinstance(reply, CommitReply) and isinstance(reply.outcome, Refused)
    return is_refused and isinstance(reply.outcome.refusal, Overloaded)
