"""The two ways in which a job ends early: the input was wrong, or training went wrong."""


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line that says what, and what to do."""


class TrainingStopped(RuntimeError):
    """Training cannot go on; the message is one line that says why, and what was kept."""


def one_line(error: Exception) -> str:
    """What went wrong in code that is not ours: the kind of error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
