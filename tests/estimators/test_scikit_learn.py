"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from mmdgm import MaxMarginImputer, MMCVAClassifier, MMVAClassifier

# small networks and few epochs: the checks fit some 60 times each
ESTIMATORS = [
    MMCVAClassifier(hidden=(32,), max_epochs=40, learning_rate=3e-3, device="cpu"),
    MMVAClassifier(hidden=(32,), max_epochs=120, learning_rate=3e-3, device="cpu"),
    MaxMarginImputer(max_epochs=5, n_iter=10, device="cpu"),
]
EXPECTED_FAILURES: dict[str, str] = {}


@pytest.mark.filterwarnings("ignore::mmdgm.errors.CollapseWarning")  # some checks have labels that are noise
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_all_checks_ran_and_none_is_excused():
    ran = [sum(1 for _ in estimator_checks_generator(estimator)) for estimator in ESTIMATORS]
    assert ran[0] >= 60
    assert ran[1] >= 60
    assert ran[2] >= 45
    assert not EXPECTED_FAILURES
