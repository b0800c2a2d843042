"""The two errors that end a job early: wrong input, or failed training."""


class InputError(ValueError):
    """The user's input is wrong. The message is one line: what is wrong, and what to do."""


class TrainingStopped(RuntimeError):
    """Training cannot continue. The message is one line: the reason, and what was kept."""


def one_line(error: Exception) -> str:
    """Return the type of a foreign error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
