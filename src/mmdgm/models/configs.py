"""The models' configs by name, and their conversion to and from JSON values."""

import json
from collections.abc import Mapping
from typing import Any, get_args

from mmdgm.errors import InputError
from mmdgm.models.m2 import MarginalConditionalVAEConfig
from mmdgm.models.max_margin_conditional import MaxMarginConditionalVAEConfig
from mmdgm.models.max_margin_vae import MaxMarginVAEConfig
from mmdgm.models.vae import VAEConfig
from mmdgm.settings import from_json, to_json

ModelConfig = VAEConfig | MaxMarginVAEConfig | MaxMarginConditionalVAEConfig | MarginalConditionalVAEConfig
KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(ModelConfig)}


def to_plain(settings: Any) -> dict[str, Any]:
    """A settings object as plain values, with the name of its class."""
    values = json.loads(json.dumps(to_json(settings)))  # tuples become lists, as in a file
    return {"kind": type(settings).__name__, **values}


def from_plain(values: Mapping[str, Any], kinds: Mapping[str, Any] = KINDS) -> Any:
    """The settings object that `to_plain` wrote."""
    if not isinstance(values, Mapping):
        raise InputError(f"config.json: the model is {values!r}, but named settings are expected")
    fields = dict(values)
    try:
        return from_json(kinds[fields.pop("kind")], fields)
    except (KeyError, TypeError) as error:
        raise InputError(f"config.json: {error} is missing or unknown; another version wrote it") from None
