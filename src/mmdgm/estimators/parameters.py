"""Checks of estimator parameters at the start of `fit`, with the same ranges as `--set`."""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mmdgm.errors import InputError
from mmdgm.models import VAEConfig
from mmdgm.models.conditional import ConditionalVAEConfig
from mmdgm.models.shared import AugmentationSettings
from mmdgm.settings import Setting, setting, settings_of
from mmdgm.training.plan import Training


@dataclass(frozen=True, kw_only=True)
class FitParameters:
    """Parameters of estimators that are not settings of models or training."""

    network: Literal["auto", "mlp", "conv"] = setting("auto", "kind of networks")
    likelihood: Literal["auto", "gaussian"] = setting("auto", "p(x|z) of images")
    propagate_labels: bool = setting(True, "whether labels are propagated first")
    max_epochs: int | None = setting(None, "passes over the rows", least=1)
    max_time: float | None = setting(None, "seconds after which training ends", above=0)
    batch_size: int | None = setting(None, "unlabeled rows in a step", least=2)
    n_iter_no_change: int = setting(5, "intervals without a better accuracy", least=1)
    validation_fraction: float | None = setting(None, "labeled rows to stop early by", above=0, below=1)
    n_iter: int = setting(100, "rounds of the iterative inference", least=1)
    n_draws: int = setting(1, "draws of missing values", least=1)
    method: Literal["auto", "rounds", "draw", "posterior"] = setting("auto", "how missing values are imputed")
    seed: int = setting(0, "seed of the draws of missing values (random_state)", least=0)


def check_parameters(
    parameters: Mapping[str, Any], config: type[VAEConfig] = VAEConfig, *, optional: Collection[str] = ()
) -> None:
    """Raise InputError for the first value that is not allowed; `config` has the model's settings.

    `optional`: parameters that may be None, which means that they are chosen from the data.
    """
    own = settings_of(FitParameters())
    known: dict[str, Setting] = {**settings_of(Training()), **settings_of(config()), **own}
    for name, value in parameters.items():
        if name not in known:
            continue
        allowed = known[name]
        if name in optional:
            allowed = dataclasses.replace(allowed, type=allowed.type | None)
        allowed.check(value)


def wanted_augmentation(value: Any) -> dict[str, Any]:
    """Return the settings that a user gives; raise InputError if a name or a value is not allowed."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"augmentation={value!r}: give 'auto', None, or a dict such as {{'turn': 10, 'shift': 2}}")
    known = {
        **settings_of(AugmentationSettings()),
        **{"standardise": settings_of(ConditionalVAEConfig())["standardise"]},
    }
    for name, given in value.items():
        if name not in known:
            raise InputError(f"augmentation: there is no {name!r}; there are: {', '.join(known)}")
        known[name].check(given)
    return dict(value)


def store_parameters(estimator: Any, values: Mapping[str, Any]) -> None:
    """Keep the parameters of an estimator's `__init__`, which gives its `locals()`."""
    for name, value in values.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)
