"""scikit-learn estimators: arrays in, arrays out."""

from mmdgm.estimators.classifiers import MMCVAClassifier, MMVAClassifier
from mmdgm.estimators.imputer import MaxMarginImputer
from mmdgm.estimators.splitters import KeepUnlabeled

__all__ = ["KeepUnlabeled", "MMCVAClassifier", "MMVAClassifier", "MaxMarginImputer"]
