"""A config: everything that a run is a function of, but its seed; as a value, and as JSON."""

import json
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mmdgm.data.prepared import Preprocessing
from mmdgm.errors import InputError
from mmdgm.models import (
    AveragedConditionalVAEConfig,
    MarginalConditionalVAEConfig,
    MaxMarginConditionalVAEConfig,
    MaxMarginVAEConfig,
    VAEConfig,
)
from mmdgm.settings import from_json, setting, settings_of, to_json
from mmdgm.training.plan import ClassifierFirstTraining, PretrainedTraining, SemiSupervisedTraining, Training

ModelConfig = (
    VAEConfig
    | MaxMarginVAEConfig
    | MaxMarginConditionalVAEConfig
    | AveragedConditionalVAEConfig
    | MarginalConditionalVAEConfig
)
TRAININGS = (Training, SemiSupervisedTraining, PretrainedTraining, ClassifierFirstTraining)
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (*get_args(ModelConfig), *TRAININGS)}  # in a config.json


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which data, and which of its rows are labeled or held out."""

    dataset: Literal["digits", "mnist", "fashion", "svhn", "norb"]
    labels: int | None = setting(
        None, "labeled training rows, the same number per class; none: all are labeled", least=1
    )
    unlabeled: bool = setting(True, "train on the other rows too, without their labels")
    extra: bool = setting(False, "train on SVHN's 531,131 extra images too")
    preprocessing: Preprocessing = setting(
        "unit", "what networks see: grey values in [0, 1], or contrast-normalised images"
    )
    validation: int = setting(0, "training rows held out to choose settings on", least=0)
    binarised: bool = setting(False, "draw the pixels anew as 0 or 1 in every training batch")
    spread: float = setting(
        0.0,
        "share of the unlabeled images, the surest of each class, that get a first guess: labels spread along a "
        "graph of neighbours, for handwriting, light on dark; see first_guesses",
        least=0,
        most=1,
    )


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that a run is a function of, but its seed."""

    preset: str
    data: Data
    model: ModelConfig
    training: Training


def check(config: Config) -> None:
    """Refuse settings that contradict each other."""
    data, model = config.data, config.model
    if data.binarised and (data.preprocessing == "lcn" or model.likelihood == "gaussian"):
        raise InputError("binarised=true: pixels of 0 or 1 want preprocessing=unit and likelihood=bernoulli")
    if bool(data.spread) != bool(getattr(model, "first_guesses", 0)):
        raise InputError(
            "spread makes first guesses, first_guesses says for how long they are trusted: set both, or neither"
        )
    if data.spread and (data.labels is None or not data.unlabeled):
        raise InputError("spread: there are no unlabeled images; add --set spread=0 --set first_guesses=0")
    for stage in config.training.stages():
        left = [stage.weights.get(name, getattr(model, name, 1.0)) for name in ("C", "generative_weight")]
        if not any(left):
            epochs = f"{stage.name}_epochs"
            remedy = f"leave it out by --set {epochs}=0" if epochs in settings_of(config) else "change one of them"
            raise InputError(
                f"C=0 and generative_weight=0: the stage {stage.name!r} has nothing to learn; {remedy}"
            )
    generative = getattr(model, "generative_weight", 1.0) > 0
    if data.preprocessing == "lcn" and model.likelihood == "bernoulli" and generative:
        raise InputError("preprocessing=lcn: such images do not lie in [0, 1]; add --set likelihood=gaussian")


def config_to_json(config: Config) -> dict[str, Any]:
    """A config as plain values; the kinds of its parts are named."""
    values: dict[str, Any] = json.loads(json.dumps(to_json(config)))  # tuples become lists, as in the file
    for part in ("model", "training"):
        values[part] = {"kind": type(getattr(config, part)).__name__, **values[part]}
    return values


def config_from_json(values: dict[str, Any]) -> Config:
    """The config that `config_to_json` wrote."""
    try:
        parts = {part: dict(values[part]) for part in ("model", "training")}
        model, training = (from_json(KINDS[fields.pop("kind")], fields) for fields in parts.values())
        return Config(
            preset=values["preset"], data=from_json(Data, values["data"]), model=model, training=training
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"config.json: {error} is missing or unknown; another version wrote it") from None
