"""One key per class: its name if that is one letter or digit, else the first free of 1–9, then of the letters."""

from collections.abc import Mapping

KEYS = "123456789abcdefghijklmnopqrstuvwxyz"


def free_key(name: str, classes: Mapping[str, str]) -> str:
    """Return the key of a new class; "" if all are taken. `classes`: name → key."""
    taken = set(classes.values())
    own = name.lower()
    if own in (*KEYS, "0") and own not in taken:
        return own
    return next((key for key in KEYS if key not in taken), "")
