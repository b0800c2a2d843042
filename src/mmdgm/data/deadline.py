"""The moment at which a fit has to end, for all the work inside it.

`max_time` of an estimator holds for the choice of an augmentation, for fills and for propagated labels too. Their
loops call `look`, which raises `TimeIsOver`; the caller then goes on with what it has. Each thread has its own moment.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float] = ContextVar("end", default=math.inf)


class TimeIsOver(Exception):
    """The time of the fit is over. Whoever can go on without the result catches it."""


@contextmanager
def ends_at(moment: float) -> Iterator[None]:
    """Inside this context, time is over at this moment of `time.monotonic`; math.inf: never."""
    token = _end.set(moment)
    try:
        yield
    finally:
        _end.reset(token)


def is_set() -> bool:
    """Return whether there is an end."""
    return _end.get() < math.inf


def left() -> float:
    """Return the seconds that are left."""
    return _end.get() - time.monotonic()


def is_over() -> bool:
    """Return whether the time is over."""
    return left() < 0


def look() -> None:
    """Raise TimeIsOver if the time is over."""
    if is_over():
        raise TimeIsOver
