"""Programs that are started, watched and ended.

Each is the leader of a process group of its own, so that it is ended together with what it has
started, by its number. Whatever ends `drivers/run`, except SIGKILL, goes through `end_all`. Parts
run in threads: each ends what it has started itself.
"""

import os
import signal
import subprocess
import threading
import time

# The programs that run, each with the thread that has started it.
_running: list[tuple[int, subprocess.Popen]] = []
_is_over = threading.Event()

END_LIMIT_S = 15


class Failed(Exception):
    """Something could not be done; the words are for the person in front of the terminal."""


def start(command, **options) -> subprocess.Popen:
    """Starts a program and remembers it."""
    if _is_over.is_set():
        raise Failed(f"{command[0]}: nothing is started any more")
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error
    _running.append((threading.get_ident(), process))
    if _is_over.is_set():
        end(process)
    return process


def run(command, limit_s: int, log, meanwhile=None, **options) -> int:
    """Runs a program to its end, what it says goes to the file `log`; its exit status. `meanwhile`
    is called with it when it was started.

    Raises `Failed` when it takes longer than `limit_s`.
    """
    with open(log, "wb") as output:
        process = start(command, stdout=output, stderr=subprocess.STDOUT, **options)
        try:
            if meanwhile is not None:
                meanwhile(process)
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"{command[0]} took longer than {limit_s} s; see {log}") from None
        finally:
            end(process)


def must_run(command, limit_s: int, log, **options) -> None:
    """`run` for what has to succeed."""
    status = run(command, limit_s, log, **options)
    if status != 0:
        raise Failed(f"{' '.join(map(str, command[:3]))} … ended with {status}; the end of {log}:\n{tail(log)}")


def tail(log, lines: int = 25) -> str:
    """The last lines of a file."""
    with open(log, encoding="utf-8", errors="replace") as text:
        return "".join(text.readlines()[-lines:]).rstrip()


def end(process: subprocess.Popen) -> None:
    """Ends a program and its children: by SIGTERM, and then by SIGKILL."""
    _signal(process, signal.SIGTERM)
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        pass
    _signal(process, signal.SIGKILL)
    process.wait()
    _running[:] = [(owner, other) for owner, other in _running if other is not process]


def kill(process: subprocess.Popen) -> None:
    """Ends a program in the middle of whatever it does."""
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen, number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def end_own() -> None:
    """Ends whatever this thread has started and still runs, the newest first."""
    for owner, process in reversed(_running.copy()):
        if owner == threading.get_ident():
            end(process)


def end_all() -> None:
    """Ends whatever still runs, the newest first. Nothing can be started afterwards."""
    _is_over.set()
    for _, process in reversed(_running.copy()):
        end(process)


def wait_until(what: str, condition, process: subprocess.Popen, log, limit_s: int = 60) -> None:
    """Waits until something is true of a program that has been started."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if process.poll() is not None:
            raise Failed(f"{what}: it ended with {process.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {limit_s} s; see {log}")
        time.sleep(0.1)
