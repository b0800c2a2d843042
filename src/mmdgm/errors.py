"""The two errors that end a job early: wrong input, or failed training."""

import re

_UNPRINTABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def printable(text: object) -> str:
    """Return text as one line that a terminal shows and does not obey: control characters become escapes.

    So do half characters, which names of files have that are no UTF-8, and which cannot be written as UTF-8.
    """
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], str(text))


class InputError(ValueError):
    """The user's input is wrong. The message is one line: what is wrong, and what to do."""

    def __init__(self, message: object):
        super().__init__(printable(message))


class CollapseWarning(UserWarning):
    """A trained classifier puts all rows into one class, or did so before training was repeated."""


class TrainingStopped(RuntimeError):
    """Training cannot continue. The message is one line: the reason, and what was kept."""


def one_line(error: Exception) -> str:
    """Return the type of a foreign error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
