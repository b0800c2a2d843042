"""Settings as frozen dataclasses: the allowed values, and how `--set key=value` changes one.

A setting is a dataclass field made by `setting(...)`, which carries a sentence of help and the allowed range. The
field's annotation is the allowed type: int, float, bool, a Literal, or a tuple of ints, each possibly `| None`.
"""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from mmdgm.errors import InputError

T = TypeVar("T")


def setting(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Any:
    """Return a dataclass field with a sentence of help and the allowed range of its value."""
    limits = {"least": least, "most": most, "above": above, "below": below}
    return dataclasses.field(default=default, metadata={"help": help, **limits})


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting of a settings object, in the form that the command line shows and reads."""

    key: str
    value: Any
    type: Any
    metadata: Mapping[str, Any]

    @property
    def help(self) -> str:
        return str(self.metadata.get("help", ""))

    @property
    def allowed(self) -> str:
        """The allowed values in words: `a number > 0`, `mlp | conv`, `true | false`."""
        words = [_type_in_words(part, self._range()) for part in _alternatives(self.type)]
        return " | ".join(words)

    def _range(self) -> str:
        signs = {"above": ">", "least": "≥", "most": "≤", "below": "<"}
        limits = [f"{sign} {self.metadata[k]:g}" for k, sign in signs.items() if self.metadata.get(k) is not None]
        return " and ".join(limits)

    def parse(self, text: str) -> Any:
        """Return the value of `text`, or raise an InputError that says what is allowed."""
        for alternative in _alternatives(self.type):
            try:
                value = _parse_as(alternative, text.strip())
            except ValueError:
                continue
            if self.permits(value):
                return value
        raise InputError(f"{self.key}={text}: not allowed; {self.key} takes {self.allowed}")

    def check(self, value: Any) -> None:
        """Raise InputError if a Python value has the wrong type or is outside the allowed range."""
        fits = any(_is_a(alternative, value) for alternative in _alternatives(self.type))
        if not fits or not self.permits(value):
            raise InputError(f"{self.key}={value!r}: not allowed; {self.key} takes {self.allowed}")

    def permits(self, value: Any) -> bool:
        """Return whether a value of the right type is in the allowed range."""
        if isinstance(value, tuple | list):
            return all(self.permits(part) for part in value)
        if isinstance(value, bool) or not isinstance(value, Real):
            return True
        limits = self.metadata
        return (
            math.isfinite(value)
            and (limits.get("least") is None or value >= limits["least"])
            and (limits.get("most") is None or value <= limits["most"])
            and (limits.get("above") is None or value > limits["above"])
            and (limits.get("below") is None or value < limits["below"])
        )


def settings_of(config: Any) -> dict[str, Setting]:
    """Return all settings of a (nested) settings object by key. A key is unique over all parts."""
    found: dict[str, Setting] = {}
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            inner = settings_of(value)
            assert not found.keys() & inner.keys(), f"a key stands twice in {type(config).__name__}"
            found |= inner
        elif "help" in field.metadata:
            found[field.name] = Setting(field.name, value, hints[field.name], field.metadata)
    return found


def override(config: T, assignments: Iterable[str]) -> tuple[T, dict[str, Any]]:
    """Return the config after the `key=value` assignments, and the assigned values by key."""
    known = settings_of(config)
    changes: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals:
            raise InputError(f"--set {assignment}: write key=value, for example --set epochs=10")
        if key not in known:
            raise InputError(f"--set {key}: there is no such setting; {_nearest(key, known)}")
        changes[key] = known[key].parse(text)
    return replace_settings(config, changes), changes


def replace_settings(config: T, changes: Mapping[str, Any]) -> T:
    """Return the config with the given settings replaced, in whichever part they are."""
    updates: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            updates[field.name] = replace_settings(value, changes)
        elif field.name in changes and "help" in field.metadata:
            updates[field.name] = changes[field.name]
    return dataclasses.replace(config, **updates)  # type: ignore[type-var]


def to_json(config: Any) -> dict[str, Any]:
    """Return a settings object as nested dictionaries of plain values."""
    return dataclasses.asdict(config)


def from_json(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a settings object of the given kind from plain values; unknown keys are errors.

    A setting that is not named was added after the values were written. Its default must describe the behaviour
    before the setting existed. A setting without a default must be named.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not isinstance(values, Mapping):
        raise InputError(f"{kind.__name__} is {values!r}, but named settings are expected")
    if unknown := set(values) - set(fields):
        raise InputError(f"{kind.__name__} has no setting {', '.join(sorted(unknown))}")
    if missing := set(fields) - set(values) - set(defaults(kind)):
        raise InputError(f"{kind.__name__} lacks the setting {', '.join(sorted(missing))}")
    hints = typing.get_type_hints(kind)
    return kind(**{key: _from_plain(key, hints[key], value) for key, value in values.items()})


def _from_plain(name: str, kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        return from_json(typing.cast(type, kind), value)
    if not any(_fits(alternative, value) for alternative in _alternatives(kind)):
        raise InputError(f"{name} is {value!r}, which is of the wrong type")
    return tuple(value) if isinstance(value, list) else value


def _fits(kind: Any, value: Any) -> bool:
    """Return whether a plain value is of a setting's type. Other types than those of settings are not checked."""
    if typing.get_origin(kind) is tuple:
        part = typing.get_args(kind)[0]
        return isinstance(value, tuple | list) and all(_fits(part, item) for item in value)
    if kind in (int, float):
        return _is_a(kind, value) and math.isfinite(value)
    if kind in (str, bool, type(None)) or typing.get_origin(kind) is typing.Literal:
        return _is_a(kind, value)
    return True


def defaults(kind: Any) -> dict[str, Any]:
    """Return the default values of a settings class, or of an object's class, as plain values."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            values[field.name] = list(field.default) if isinstance(field.default, tuple) else field.default
        elif field.default_factory is not dataclasses.MISSING:
            values[field.name] = to_json(field.default_factory())
    return values


def _nearest(key: str, known: Mapping[str, Setting]) -> str:
    folded = {name.lower(): setting for name, setting in known.items()}
    close = difflib.get_close_matches(key.lower().replace("-", "_"), folded, n=1, cutoff=0.5)
    if close:
        nearest = folded[close[0]]
        return f"the nearest is {nearest.key} (takes {nearest.allowed})"
    return f"there are: {', '.join(known)}"


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """Return the parts of a union. None comes first, so that the word "none" is not parsed as something else."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(sorted(typing.get_args(kind), key=lambda part: part is not type(None)))
    return (kind,)


def _type_in_words(kind: Any, limits: str) -> str:
    if kind is type(None):
        return "none"
    if kind is bool:
        return "true | false"
    if typing.get_origin(kind) is typing.Literal:
        return " | ".join(typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return " ".join(filter(None, ("whole numbers", limits, "separated by commas")))
    return f"{'a whole number' if kind is int else 'a number'} {limits}".rstrip()


def _is_a(kind: Any, value: Any) -> bool:
    if typing.get_origin(kind) is typing.Literal:
        return any(value is choice or (isinstance(value, str) and value == choice) for choice in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple | list) and bool(value) and all(_is_a(int, part) for part in value)
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, kind)


def _parse_as(kind: Any, text: str) -> Any:
    if kind is type(None):
        return _choice({"none": None}, text)
    if kind is bool:
        return _choice({"true": True, "false": False}, text)
    if typing.get_origin(kind) is typing.Literal:
        return _choice({name: name for name in typing.get_args(kind)}, text)
    if typing.get_origin(kind) is tuple:
        return tuple(int(part) for part in text.split(","))
    return kind(text)


def _choice(choices: Mapping[str, Any], text: str) -> Any:
    if text.lower() not in choices:
        raise ValueError(text)
    return choices[text.lower()]
