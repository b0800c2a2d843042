"""Classifiers on filled rows, and on raw rows with holes."""

from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from benchmarks.tables.tasks import Labels
from mmdgm import MMCVAClassifier
from mmdgm.data.codecs import TableCodec
from mmdgm.devices import Machine, make_fabric
from mmdgm.inference.filling import fill_by
from mmdgm.propagation.table_guesses import class_chances_of_tables
from mmdgm.training.filling import train_filler

OURS = "MMCVAClassifier"
CODES, FRAME = "codes", "frame"
# fits a model on rows, labels (−1: unlabeled) and a seed
Fit = Callable[[Any, Labels, int], Any]


def on_labeled(make: Callable[[int], Any]) -> Fit:
    """A fit that learns from the labeled rows alone."""
    return lambda x, y, seed: make(seed).fit(x[y >= 0], y[y >= 0])


def on_all(make: Callable[[int], Any]) -> Fit:
    """A fit that sees the unlabeled rows too."""
    return lambda x, y, seed: make(seed).fit(x, y)


def logistic(_: int) -> Any:
    return LogisticRegression(max_iter=1000)


def svm(_: int) -> Any:
    return SVC(C=3.0)


def svm_with_probabilities(seed: int) -> Any:
    # deprecated, but its successor, CalibratedClassifierCV, needs several labels per class
    return SVC(C=3.0, probability=True, random_state=seed)


def trees(seed: int) -> Any:
    return RandomForestClassifier(300, random_state=seed)


def boosted_trees(seed: int) -> Any:
    # the default, 20 rows per leaf, allows no split of 20 labeled rows; categories as such, which need 10 rows each,
    # were worse than their numbers; it stops at a column without an observed value, which VarianceThreshold removes
    return make_pipeline(VarianceThreshold(), HistGradientBoostingClassifier(min_samples_leaf=5, random_state=seed))


def spreading(_: int) -> Any:
    return LabelSpreading(kernel="knn", n_neighbors=10, max_iter=1000)


class FirstGuess:
    """The first guess of `MMCVAClassifier` alone: its fills and its two quick classifiers, without its networks."""

    def __init__(self, seed: int):
        self.seed = seed

    def fit(self, frame: Any, y: Labels) -> "FirstGuess":
        self.codec, self.y = TableCodec.learn(frame, list(frame.columns)), y
        encoded = self.codec.encode(frame)
        fabric = make_fabric(Machine("cpu"), precision="32-true")
        columns = self.codec.table.columns
        self.filler = train_filler(encoded[:, :, 0, 0], columns, seed=self.seed, fabric=fabric)
        self.rows = fill_by(self.filler, encoded)[:, :, 0, 0]
        return self

    def predict(self, frame: Any) -> Labels:
        new = fill_by(self.filler, self.codec.encode(frame))[:, :, 0, 0]
        chances = class_chances_of_tables(self.rows, self.y, new, seed=self.seed)
        return chances.argmax(axis=1)


class Method(NamedTuple):
    """A fit, and the rows that it gets: those of an imputer, or rows with holes as CODES or as a data FRAME."""

    rows: str
    fit: Fit


ON_FILLED: dict[str, Fit] = {
    "LR": on_labeled(logistic),
    "SVM": on_labeled(svm),
    "RF": on_labeled(trees),
    "self-training-RF": on_all(lambda seed: SelfTrainingClassifier(trees(seed))),
    "self-training-SVM": on_all(lambda seed: SelfTrainingClassifier(svm_with_probabilities(seed))),
}
CLASSIFIERS: dict[str, Method] = {
    **{f"{fill}+{name}": Method(fill, fit) for fill in ("forest", "KNN") for name, fit in ON_FILLED.items()},
    "KNN+LabelSpreading": Method("KNN", on_all(spreading)),
    "first-guess-alone": Method(FRAME, on_all(FirstGuess)),
    "HistGradientBoosting": Method(CODES, on_labeled(boosted_trees)),
    OURS: Method(FRAME, lambda x, y, seed: MMCVAClassifier(random_state=seed).fit(x, y)),
}
