"""Parameters of estimators: refused by the ranges that `--set` goes by."""

import numpy as np
import pytest
import torch

from conftest import QUICK
from mmdgm import MaxMarginImputer, MMCVAClassifier, MMVAClassifier
from mmdgm.errors import InputError
from mmdgm.estimators.parameters import FitParameters, check_parameters
from mmdgm.settings import settings_of
from mmdgm.training.plan import Training


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"max_epochs": 0}, "max_epochs=0"),
        ({"margin": -1}, "margin=-1"),
        ({"likelihood": "laplace"}, "likelihood='laplace'"),
        ({"propagate_labels": "knn"}, "propagate_labels='knn'"),
        ({"alpha": "a"}, "alpha='a'"),
        ({"hidden": 7}, "hidden=7"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"network": "conv"}, "wants images"),
        ({"validation_fraction": 2.0}, "validation_fraction=2.0"),
    ],
)
def test_parameters_that_mean_nothing(wine, changes, line):
    with pytest.raises(InputError, match=line):
        MMCVAClassifier(**{**QUICK, **changes}).fit(wine[2], wine[3])


def test_a_device_that_is_not_there_is_refused_in_words_for_python(wine, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device, line in (("cuda", "use cpu"), ("tpu", "auto, cpu or cuda")):
        with pytest.raises(InputError, match=f"^device {device}: .*{line}"):
            MMCVAClassifier(**{**QUICK, "device": device}).fit(wine[2], wine[3])


# values, and how --set is given them
VALUES = {
    **{text: float(text) for text in ("nan", "inf", "-inf", "-0.5", "1e-9", "0.5", "0.999", "1.5", "1e300")},
    **{text: int(text) for text in ("-1", "0", "1", "2", "1000")},
    **{"true": True, "false": False, "none": None, "mlp": "mlp", "32-true": "32-true", "auto": "auto"},
    **{"5,5": (5, 5), "0,5": (0, 5), "5,-1": (5, -1)},
}
SHARED = {
    MMCVAClassifier: {"alpha", "hat_weight", "balance_weight"},
    MMVAClassifier: {"C"},
}


@pytest.mark.parametrize("kind", SHARED)
def test_parameters_and_settings_of_one_name_take_the_same_values(kind):
    known = {**settings_of(Training()), **settings_of(kind._config_class())}
    own = settings_of(FitParameters())
    shared = {name for name in kind().get_params() if name in known and name not in own}
    assert shared == {"hidden", "z", "margin", "dropout", "learning_rate", "precision"} | SHARED[kind]
    for name in shared:
        for text, value in VALUES.items():
            if isinstance(value, int) and known[name].type == tuple[int, ...]:
                continue  # --set writes a tuple of one without a comma
            by_set = refusal(lambda name=name, text=text: known[name].parse(text))
            by_fit = refusal(lambda name=name, value=value: check_parameters({name: value}, kind._config_class))
            assert (by_set is None) == (by_fit is None), (name, text)
            if by_set is not None:
                assert by_set.partition("; ")[2] == by_fit.partition("; ")[2]  # what is allowed, in the same words


def refusal(check):
    """What an InputError says; None: there was none."""
    try:
        check()
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("name", "refused", "taken"),
    [
        ("alpha", [-1e-9, "1", None, np.nan, np.inf, True], [0, 2, np.float32(0.5)]),
        ("dropout", [-0.1, 1, 0.96], [0, 0.0, 0.95]),
        ("z", [0, 2.0, "4"], [1, None, np.int64(7)]),
        ("hidden", [(), (0,), (1.5,), 7, "64"], [(1,), [32, 16], None]),
        ("margin", [-1, 0, "a", None], [1e-3, 3]),
        ("learning_rate", [0, -1e-3, np.nan], [1e-12, 10]),
        ("max_epochs", [0, -1, 1.5, True], [None, 1, np.int32(3)]),
        ("batch_size", [0, 1, 2.5], [None, 2]),
        ("max_time", [0, -1, np.inf], [None, 1e-3, 5]),
        ("validation_fraction", [0, 1, 1.0, -0.1], [None, 0.3]),
        ("n_iter_no_change", [0, None], [1]),
        ("network", ["cnn", None], ["auto", "mlp", "conv"]),
        ("likelihood", ["bernoulli", None], ["auto", "gaussian"]),
        ("propagate_labels", ["auto", None, 1], [True, False]),
        ("precision", ["16", None], ["auto", "32-true", "bf16-mixed"]),
    ],
)
def test_the_values_of_each_parameter(name, refused, taken):
    for value in refused:
        with pytest.raises(InputError, match=f"^{name}="):
            check(name, value)
    for value in taken:
        assert check(name, value) is None


def check(name, value, kind=MMCVAClassifier):
    return check_parameters({name: value}, kind._config_class, optional=kind._optional)


def test_none_is_a_value_where_the_data_choose(wine):
    for kind, names in (
        (MMCVAClassifier, {"hidden", "z", "dropout"}),
        (MMVAClassifier, {"hidden", "z", "C", "margin"}),
    ):
        for name in ("hidden", "z", "margin", "dropout", "learning_rate", *SHARED[kind]):
            assert (refusal(lambda name=name, kind=kind: check(name, None, kind)) is None) == (name in names)
    with pytest.raises(InputError, match=r"^margin=None"):
        MMCVAClassifier(margin=None).fit(wine[0], wine[1])


def test_parameters_are_checked_when_fit_begins_and_defaults_are_allowed(wine):
    for kind in (MMCVAClassifier, MMVAClassifier):
        assert check_parameters(kind().get_params(), kind._config_class, optional=kind._optional) is None
        model = kind(margin=-1)  # storing alone checks nothing
        with pytest.raises(InputError, match=r"^margin=-1"):
            model.fit(wine[0], wine[1])
    for n_iter, n_draws in ((0, 1), (1, 0), (1.5, 1)):
        with pytest.raises(InputError, match=r"^n_(iter|draws)="):
            MMCVAClassifier().impute(wine[0], n_iter=n_iter, n_draws=n_draws)
    with pytest.raises(InputError, match=r"^n_iter=0"):
        MaxMarginImputer(n_iter=0).fit(wine[0])
