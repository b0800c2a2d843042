"""scikit-learn estimators, which take and return arrays."""

from pathlib import Path

from mmdgm.estimators.classifiers import MMCVAClassifier, MMVAClassifier
from mmdgm.estimators.imputer import MaxMarginImputer
from mmdgm.estimators.saving import read_estimator
from mmdgm.estimators.splitters import KeepUnlabeled
from mmdgm.estimators.suggestions import suggest_labels

CLASSIFIERS = {kind.__name__: kind for kind in (MMCVAClassifier, MMVAClassifier)}

__all__ = [
    "CLASSIFIERS",
    "KeepUnlabeled",
    "MMCVAClassifier",
    "MMVAClassifier",
    "MaxMarginImputer",
    "load",
    "suggest_labels",
]


def load(path: str | Path, *, device: str | None = None) -> MMCVAClassifier | MMVAClassifier:
    """Return the fitted estimator of a run folder, or of a folder that `save` wrote."""
    return read_estimator(path, CLASSIFIERS, device=device)  # type: ignore[no-any-return]
