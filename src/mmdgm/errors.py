"""The two ways in which a job ends early: the input was wrong, or training went wrong."""


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line that says what, and what to do."""


class TrainingStopped(RuntimeError):
    """Training cannot go on; the message is one line that says why, and what was kept."""
