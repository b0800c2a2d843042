"""The config of a preset's run: everything that determines the run, except the seed; as a value and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mmdgm.errors import InputError
from mmdgm.models.configs import KINDS, ModelConfig, from_plain, to_plain
from mmdgm.settings import defaults, from_json, replace_settings, setting, settings_of, to_json
from mmdgm.training.plan import (
    ClassifierFirstTraining,
    GenerativeLastTraining,
    PretrainedTraining,
    SemiSupervisedTraining,
    Training,
)

TRAININGS = (
    Training,
    SemiSupervisedTraining,
    GenerativeLastTraining,
    PretrainedTraining,
    ClassifierFirstTraining,
)


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data set, and which of its rows are labeled or held out."""

    dataset: Literal["digits", "mnist", "fashion", "svhn", "norb"]
    labels: int | None = setting(
        None, "labeled training rows, the same number per class; none: all are labeled", least=1
    )
    unlabeled: bool = setting(True, "train on the other rows too, without their labels")
    extra: bool = setting(False, "train on SVHN's 531,131 extra images too")
    preprocessing: Literal["unit", "lcn"] = setting(
        "unit", "what networks see: grey values in [0, 1], or contrast-normalised images"
    )
    validation: int = setting(0, "training rows held out to choose settings on", least=0)
    validation_group: int | None = setting(
        None, "small NORB: number of the toy, one of each class, that is held out to choose settings on", least=0
    )
    binarised: bool = setting(False, "draw the pixels anew as 0 or 1 in every training batch")
    propagate: float = setting(
        0.0,
        "fraction of the unlabeled images, the surest of each class, that get a label propagated along a graph of "
        "neighbours, for handwriting; see trust_propagated",
        least=0,
        most=1,
    )


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that determines a run, except its seed."""

    preset: str
    data: Data
    model: ModelConfig
    training: Training


def check(config: Config) -> None:
    """Raise InputError if settings contradict each other."""
    data, model = config.data, config.model
    if data.binarised and (data.preprocessing == "lcn" or model.likelihood == "gaussian"):
        raise InputError("binarised=true: pixels of 0 or 1 want preprocessing=unit and likelihood=bernoulli")
    if bool(data.propagate) != bool(getattr(model, "trust_propagated", 0)):
        raise InputError(
            "propagate makes labels for unlabeled rows, trust_propagated says for how long they count: set both, "
            "or neither"
        )
    if data.propagate and (data.labels is None or not data.unlabeled):
        raise InputError("propagate: there are no unlabeled images; add --set propagate=0 --set trust_propagated=0")
    for stage in config.training.stages():
        names = [name for name in ("C", "alpha", "generative_weight") if hasattr(model, name)]
        if names and not any(stage.changes.get(name, getattr(model, name)) for name in names):
            epochs = f"{stage.name}_epochs"
            remedy = f"leave it out by --set {epochs}=0" if epochs in settings_of(config) else "change one of them"
            zeros = " and ".join(f"{name}=0" for name in names)
            raise InputError(f"{zeros}: the stage {stage.name!r} has nothing to learn; {remedy}")
    generative = getattr(model, "generative_weight", 1.0) > 0
    if data.preprocessing == "lcn" and model.likelihood == "bernoulli" and generative:
        raise InputError("preprocessing=lcn: such images do not lie in [0, 1]; add --set likelihood=gaussian")


def config_to_json(config: Config) -> dict[str, Any]:
    """Return a config as plain values, with the class names of its parts."""
    parts = {"model": to_plain(config.model), "training": to_plain(config.training)}
    return {"preset": config.preset, "data": to_json(config.data), **parts}


def config_from_json(values: Mapping[str, Any]) -> Config:
    """Return the config that `config_to_json` wrote."""
    kinds = {**KINDS, **{kind.__name__: kind for kind in TRAININGS}}
    try:
        model, training = (from_plain(values[part], kinds) for part in ("model", "training"))
        return Config(preset=values["preset"], data=from_json(Data, values["data"]), model=model, training=training)
    except KeyError as error:
        raise InputError(f"config.json: {error} is missing; another version wrote it") from None


def differing_settings(saved: Mapping[str, Any], config: Config) -> Iterator[tuple[str, Any, Any]]:
    """Yield the settings (key, saved, now) in which a saved config, from `config_to_json`, differs from this one.

    A setting that the saved config does not name was added later; it had its default (see `from_json`).
    """
    now = config_to_json(config)
    for part in ("data", "model", "training"):
        before = _with_defaults(defaults(getattr(config, part)), saved.get(part, {}))
        for key, value in now[part].items():
            if before.get(key) != value:
                yield key, before.get(key), value


def _with_defaults(known: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return saved values, with the defaults of settings that they do not name, in their parts too."""
    parts = {
        key: _with_defaults(known[key], value) for key, value in saved.items() if isinstance(known.get(key), dict)
    }
    return {**known, **saved, **parts}


def variant(config: Config, suffix: str, **changes: float) -> Config:
    """Return a variant of a config with some settings changed."""
    assert changes.keys() <= settings_of(config).keys()
    return replace(replace_settings(config, changes), preset=f"{config.preset}-{suffix}")


def on_labels_alone(config: Config) -> Config:
    """Return a config of the same classifier, trained with the hinge loss on the labeled rows only."""
    alone = variant(
        config, "labels-alone", generative_weight=0.0, hat_weight=0.0, balance_weight=0.0, straight_through=0.0
    )
    return replace(
        alone,
        data=replace(config.data, unlabeled=False),
        training=Training(epochs=5000, batch=config.training.batch, learning_rate=1e-3),  # 1 or 2 steps per epoch
    )
