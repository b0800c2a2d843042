"""Max-margin deep generative models: one model that classifies, imputes and generates."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mmdgm.estimators import KeepUnlabeled, MaxMarginImputer, MMCVAClassifier, MMVAClassifier, suggest_labels
    from mmdgm.experiments.run_folder import load

__all__ = ["KeepUnlabeled", "MMCVAClassifier", "MMVAClassifier", "MaxMarginImputer", "load", "suggest_labels"]


def _summary(estimator: Any) -> str:
    """Return a fitted estimator as HTML. Estimators ask here, because the folder `report` comes after theirs."""
    from mmdgm.report.summary import summary

    return summary(estimator)


def __getattr__(name: str) -> Any:
    """Import the estimators and `load` at their first use, because importing torch takes seconds."""
    if name == "load":
        from mmdgm.experiments.run_folder import load

        return load
    if name in __all__:
        from mmdgm import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'mmdgm' has no attribute {name!r}")
