"""What `--set key=value` takes and refuses, and settings as JSON."""

import json
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

from mmdgm.errors import InputError
from mmdgm.settings import defaults, from_json, override, replace_settings, setting, settings_of, to_json


@dataclass(frozen=True, kw_only=True)
class Inner:
    width: int = setting(3, "a size", least=1, most=9)
    rate: float = setting(0.5, "a rate", above=0)
    free: float = setting(0.0, "any number")
    C: float = setting(1.0, "a weight", least=0)
    limit: int | None = setting(None, "a limit, or none", least=0)
    kind: Literal["mlp", "conv"] = setting("mlp", "a kind")
    fast: bool = setting(False, "a switch")
    layers: tuple[int, ...] = setting((5, 5), "sizes", least=1)
    note: str = "no setting"


@dataclass(frozen=True, kw_only=True)
class Other:
    batch_size: int = setting(8, "rows", least=1)


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    inner: Inner = field(default_factory=Inner)
    other: Other = field(default_factory=Other)


@dataclass(frozen=True, kw_only=True)
class Necessary:
    width: int


OUTER = Outer(name="a name")


def refusal(*assignments):
    """The one line with which the assignments are refused."""
    with pytest.raises(InputError) as caught:
        override(OUTER, assignments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("width=1", 1),
        ("width=9", 9),
        (" width = 7 ", 7),
        ("rate=1e-3", 0.001),
        ("rate=2", 2.0),
        ("free=-1.5", -1.5),
        ("limit=none", None),
        ("limit=None", None),
        ("limit=0", 0),
        ("kind=conv", "conv"),
        ("kind=Conv", "conv"),
        ("fast=true", True),
        ("fast=False", False),
        ("layers=7", (7,)),
        ("layers=4, 5,6", (4, 5, 6)),
    ],
)
def test_a_value_is_parsed_as_its_type(assignment, value):
    config, changes = override(OUTER, [assignment])
    ((key, changed),) = changes.items()
    assert changed == value
    assert type(changed) is type(value)
    assert getattr(config.inner, key) == value
    assert to_json(config) == {**to_json(OUTER), "inner": {**to_json(OUTER.inner), key: value}}


@pytest.mark.parametrize(
    ("key", "values", "allowed"),
    [
        ("width", ["0", "10", "2.0", "1e0", "nan", "inf", "none", "", "true"], "a whole number ≥ 1 and ≤ 9"),
        ("rate", ["0", "-1", "nan", "inf", "-inf", "1e999", "fast", ""], "a number > 0"),
        ("free", ["nan", "inf", "-inf", "1,5"], "a number"),
        ("limit", ["-1", "nil", "0.5"], "none | a whole number ≥ 0"),
        ("kind", ["cnn", ""], "mlp | conv"),
        ("fast", ["1", "yes", "none", ""], "true | false"),
        ("layers", ["", "5,", "5;5", "1.5", "0", "5,-5"], "whole numbers ≥ 1 separated by commas"),
    ],
)
def test_a_bad_value_is_refused_by_key_and_allowed_values(key, values, allowed):
    for value in values:
        said = refusal(f"{key}={value}")
        assert said.startswith(f"{key}={value}: ")
        assert said.endswith(f" {allowed}")


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("widht", "width (takes a whole number ≥ 1 and ≤ 9)"),
        ("batch-size", "batch_size (takes a whole number ≥ 1)"),
        ("Rate", "rate (takes a number > 0)"),
        ("c", "C (takes a number ≥ 0)"),
    ],
)
def test_an_unknown_key_names_the_nearest(key, nearest):
    assert refusal(f"{key}=1").endswith(f" {nearest}")


@pytest.mark.parametrize("key", ["zzzzzz", "note", "inner", "name"])
def test_what_is_no_setting_is_unknown(key):
    assert "no such setting" in refusal(f"{key}=1")


def test_a_key_unlike_any_lists_all():
    assert refusal("zzzzzz=1").endswith(": width, rate, free, C, limit, kind, fast, layers, batch_size")


def test_an_assignment_without_equals_sign_is_refused():
    assert "key=value" in refusal("width")


def test_override_changes_nested_parts_and_says_what():
    config, changes = override(OUTER, ["width=1", "batch_size=2", "width=4"])
    assert config == Outer(name="a name", inner=Inner(width=4), other=Other(batch_size=2))
    assert changes == {"width": 4, "batch_size": 2}  # the last word counts
    assert Outer(name="a name") == OUTER
    assert override(OUTER, []) == (OUTER, {})


def test_replace_settings_leaves_fields_that_are_no_settings():
    config = replace_settings(OUTER, {"batch_size": 3, "note": "changed", "name": "changed"})
    assert config == Outer(name="a name", other=Other(batch_size=3))


def test_settings_of_nested_parts_by_key():
    known = settings_of(OUTER)
    assert list(known) == ["width", "rate", "free", "C", "limit", "kind", "fast", "layers", "batch_size"]
    assert (known["layers"].value, known["layers"].help) == ((5, 5), "sizes")


def test_json_round_trip_is_equal():
    config = Inner(width=2, limit=4, kind="conv", fast=True, layers=(1, 2, 3), rate=1 / 3)
    assert from_json(Inner, json.loads(json.dumps(to_json(config)))) == config


def test_json_with_unknown_keys_or_without_necessary_ones_is_refused():
    with pytest.raises(InputError, match="colour, depth"):
        from_json(Inner, {**to_json(Inner()), "depth": 1, "colour": 2})
    with pytest.raises(InputError, match="width"):
        from_json(Necessary, {})


def test_a_setting_that_json_does_not_know_has_its_default():
    values = to_json(Inner(rate=2.0))
    del values["width"], values["layers"]
    assert from_json(Inner, values) == Inner(rate=2.0)
    assert defaults(Inner)["layers"] == [5, 5]
    assert defaults(Outer) == {"inner": to_json(Inner()), "other": {"batch_size": 8}}
    assert from_json(Outer, {"name": "a name"}) == OUTER


VALUES = [0, 1, 9, 10, -1, 0.5, 2.0, True, False, None, "mlp", "cnn", "3", (5,), [4, 5], (), (0,), (1.5,)]
VALUES += [float("nan"), float("inf"), np.int64(3), np.float32(0.5), np.bool_(True)]


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        ("width", [1, 9, np.int64(3)]),
        ("rate", [1, 9, 10, 0.5, 2.0, np.int64(3), np.float32(0.5)]),
        ("limit", [0, 1, 9, 10, None, np.int64(3)]),
        ("kind", ["mlp"]),
        ("fast", [True, False]),
        ("layers", [(5,), [4, 5]]),
    ],
)
def test_a_python_value_is_checked_by_type_and_range(key, taken):
    known = settings_of(OUTER)[key]
    for value in VALUES:
        if any(value is each for each in taken) or repr(value) in map(repr, taken):
            assert known.check(value) is None
        else:
            with pytest.raises(InputError, match=f"^{key}=") as caught:
                known.check(value)
            assert str(caught.value).endswith(known.allowed)
