"""Faults of disks and processes for tests: what fails, or kills, at the n-th change of a file; and damaged bytes.

The changes are counted in Python's `os` (through which `mmdgm.files` writes everything), so nothing else is needed. A
write that is struck has written half of its bytes.
"""

import errno
import itertools
import os
import random
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CHANGES = ("open", "write", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
KILLED = 137


@contextmanager
def struck(strikes: Callable[[int], bool], fault: Callable[[], None]) -> Iterator[None]:
    """Call `fault` in place of the changes whose numbers, from 1 on, are struck."""
    numbers = itertools.count(1)
    calls = {name: getattr(os, name) for name in CHANGES}

    def watched(name):
        def call(*args, **more):
            changes = name != "open" or (args[1] if len(args) > 1 else more["flags"]) & WRITING
            if changes and strikes(next(numbers)):
                if name == "write":
                    calls[name](args[0], bytes(args[1])[: len(args[1]) // 2])
                fault()
            return calls[name](*args, **more)

        return call

    for name in CHANGES:
        setattr(os, name, watched(name))
    try:
        yield
    finally:
        for name, call in calls.items():
            setattr(os, name, call)


@contextmanager
def failing(at: int, *, number: int = errno.ENOSPC, lasting: bool = False) -> Iterator[None]:
    """Let the change number `at` fail with OSError (disk full); `lasting`: and all that follow."""

    def fail():
        raise OSError(number, os.strerror(number))

    with struck(lambda n: n == at or (lasting and n > at), fail):
        yield


def killed(function: Callable[[], object], at: int) -> bool:
    """Run a function in a process of its own that is killed at its change number `at`; False: it ended before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads
        child = os.fork()
    if child == 0:
        code = 70
        try:
            with struck(lambda n: n == at, lambda: os._exit(KILLED)):
                function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED), f"the process ended with {code}"
    return code == KILLED


def killed_at_every_write(function: Callable[[], object], *, start: int = 1, step: int = 1) -> Iterator[int]:
    """Run a function again and again, killed at its change number `start`, `start + step`, …; yield after each kill.

    The last time, it comes to its end.
    """
    for at in itertools.count(start, step):
        if not killed(function, at):
            return
        yield at


@contextmanager
def heeded() -> Iterator[None]:
    """Let signals act as in a terminal, also under nohup and in a job in the background, where some are ignored."""
    before = {name: signal.getsignal(getattr(signal, name)) for name in ("SIGINT", "SIGTERM", "SIGHUP")}
    for name in before:
        signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def flipped(content: bytes, n: int, *, seed: int = 0) -> Iterator[bytes]:
    """Yield n damaged copies: one bit or one byte is another, or some bytes are missing, doubled or zero."""
    draw = random.Random(seed)
    for i in range(n):
        copy, place = bytearray(content), draw.randrange(len(content))
        if i % 10 < 4:
            copy[place] ^= 1 << draw.randrange(8)
        elif i % 10 < 7:
            copy[place] = (copy[place] + draw.randrange(1, 256)) % 256
        elif i % 10 == 7:
            del copy[place : place + draw.randrange(1, 9)]
        elif i % 10 == 8:
            copy[place:place] = copy[place : place + draw.randrange(1, 9)]
        else:
            copy[place : place + 512] = bytes(len(copy[place : place + 512]))
        if bytes(copy) != content:
            yield bytes(copy)
