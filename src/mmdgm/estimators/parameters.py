"""Parameters of estimators, checked when `fit` begins: one line says which is wrong."""

import math
from numbers import Integral, Real
from typing import Any

from mmdgm.errors import InputError

CHOICES = {
    "network": ("auto", "mlp", "conv"),
    "likelihood": ("auto", "gaussian"),
    "initial_labels": ("auto", "neighbours", None),
    "precision": ("auto", "32-true", "bf16-mixed"),
}
# (the smallest value, whether it must be above it, whether None is a value)
NUMBERS: dict[str, tuple[float, bool, bool]] = {
    "alpha": (0, False, False),
    "hat_weight": (0, False, False),
    "balance_weight": (0, False, False),
    "C": (0, True, True),
    "margin": (0, True, True),
    "dropout": (0, False, False),
    "learning_rate": (0, True, False),
    "max_time": (0, True, True),
}
COUNTS = {"z": True, "max_epochs": True, "batch_size": True, "n_iter_no_change": False, "n_iter": False}


def check_parameters(parameters: dict[str, Any]) -> None:
    """Refuse values that mean nothing."""
    for name, value in parameters.items():
        if name in CHOICES and value not in CHOICES[name]:
            words = ", ".join(map(repr, CHOICES[name]))
            raise InputError(f"{name}={value!r}: give one of {words}")
        if name in NUMBERS:
            _check_number(name, value, *NUMBERS[name])
        if name in COUNTS and not (value is None and COUNTS[name]):
            _check_count(name, value)
    if parameters.get("dropout", 0) >= 1:
        raise InputError(f"dropout={parameters['dropout']}: give a rate below 1")
    hidden = parameters.get("hidden")
    if hidden is not None:
        if isinstance(hidden, int) or not len(hidden):
            raise InputError(f"hidden={hidden!r}: give the units of each hidden layer, for example (128, 128)")
        for units in hidden:
            _check_count("hidden", units)


def _check_number(name: str, value: Any, least: float, above: bool, optional: bool) -> None:
    if value is None and optional:
        return
    number = isinstance(value, Real) and math.isfinite(value)
    if not number or value < least or (above and value == least):
        raise InputError(f"{name}={value!r}: give a number {'above' if above else 'of at least'} {least:g}")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name}={value!r}: give a whole number, 1 or more")
