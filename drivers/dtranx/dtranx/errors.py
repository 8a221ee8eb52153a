"""Errors of the client: each says what is known about the transaction."""

from typing import Any


class Error(Exception):
    """Any error of this client."""


class RefusedError(Error):
    """It is not committed, or there is no snapshot: the last refusal, after as many attempts as
    were made."""

    def __init__(self, refusal: Any, attempts: int = 1):
        super().__init__(f"refused after {attempts} attempts: {refusal}")
        self.refusal = refusal


class UnknownError(Error):
    """No answer to a commit: it may be committed. Only reading shows it."""


class EndedError(Error):
    """The transaction is over: it was committed, or may be. Nothing was sent now."""


class UnavailableError(Error):
    """A server could not be reached, or did not answer. Nothing was committed."""

    # The server that did not answer, where it is one that the cluster has.
    server: int | None = None


class NotWelcomeError(Error):
    """A server refuses this client for good: the cluster, its map, the server or the secret is
    another one."""


class OtherVersionError(NotWelcomeError):
    """The server speaks another version of the protocol, or none."""


class LimitError(Error):
    """A key, a value or a transaction is too large. Nothing was sent."""
