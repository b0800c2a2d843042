"""scikit-learn estimators: arrays in, arrays out."""

from mmdgm.estimators.classifiers import MMCVAClassifier, MMVAClassifier

__all__ = ["MMCVAClassifier", "MMVAClassifier"]
