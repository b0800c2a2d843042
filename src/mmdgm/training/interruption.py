"""Signals that end a process wait until training has come to a state that a checkpoint can hold."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def postponed(wanted: bool) -> Iterator[list[int]]:
    """Collect the ending signals that come inside; afterwards, the first one does what it would have done.

    A second signal does so at once. Ignored signals stay ignored (`nohup`). Only the main thread gets signals.
    """
    came: list[int] = []
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield came
        return
    found = {number: signal.getsignal(number) for number in ENDING}
    before = {number: handler for number, handler in found.items() if handler not in (signal.SIG_IGN, None)}

    def as_before() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def wait(number: int, _: object) -> None:
        came.append(number)
        if len(came) > 1:
            as_before()
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, wait)
    try:
        yield came
    finally:
        as_before()
    if came:
        signal.raise_signal(came[0])
        raise KeyboardInterrupt
