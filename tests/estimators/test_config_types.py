"""A config.json with values of wrong types is refused with one line."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from conftest import QUICK
from mmdgm import MMVAClassifier
from mmdgm.data.codecs import codec_from_json
from mmdgm.errors import InputError
from mmdgm.models.configs import from_plain, to_plain

WRONG = (None, "many", -1, [], {}, [[1]], {"a": 1}, 1e999, True)


@pytest.fixture(scope="module", name="parts")
def make_parts():
    """The codecs and the model of saved estimators, as plain values."""
    rows, y = np.array([["ab"[i % 2], float(i), i % 3 > 1] for i in range(30)], object), np.arange(30) % 2
    table = MMVAClassifier(**{**QUICK, "max_epochs": 1}).fit(rows, y)
    images = MMVAClassifier(max_epochs=1, z=2).fit(np.random.default_rng(0).random((20, 8, 8)), y[:20])
    values = [table.codec_.to_json(), images.codec_.to_json(), to_plain(table.config_), to_plain(images.config_)]
    return json.loads(json.dumps(values))


def changed(value: Any, wrong: Any) -> Iterator[Any]:
    """The value with one of its parts replaced, for each part."""
    yield wrong
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        for part in changed(value[key], wrong):
            copied = copy.deepcopy(value)
            copied[key] = part
            yield copied


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_types_are_refused_or_harmless(parts, wrong):
    for part, read in zip(parts, (codec_from_json, codec_from_json, from_plain, from_plain), strict=True):
        assert read(part) is not None
        refused = tried = 0
        for values in changed(part, wrong):
            tried += 1
            try:
                read(values)
            except InputError:
                refused += 1
        assert refused > tried / 4
