"""A linear SVM on the frozen features of a VAE that was trained without a classifier (VA+Pegasos)."""

import torch
from torch import Tensor

from mmdgm.data.batches import Reading, Store, to_unit
from mmdgm.models import MaxMarginVAE
from mmdgm.models.linear_svm import fit_linear_svm

BATCH = 1000


@torch.no_grad()
def fit_feature_svm(model: MaxMarginVAE, store: Store, reading: Reading, *, seed: int = 0) -> None:
    """Fit a linear SVM on the features of the labeled rows, and make it the model's classifier."""
    labeled = store.y >= 0
    features, y = embed(model.eval(), store.x[labeled], reading), store.y[labeled]
    svm = fit_linear_svm(features, y, n_classes=model.classifier.out_features, seed=seed)
    model.classifier.weight.copy_(svm.weight)
    model.classifier.bias.copy_(svm.bias)


def embed(model: MaxMarginVAE, x: Tensor, reading: Reading) -> Tensor:
    """Return the features that the classifier sees, `(rows, width)`."""
    return torch.cat([model.embed(to_unit(rows, reading.scale)) for rows in x.split(BATCH)])
