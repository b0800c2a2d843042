"""The classifier of a VAE that was trained without one: a linear SVM on its frozen features (VA+Pegasos)."""

import torch
from torch import Tensor

from mmdgm.data.datasets import Images, Labels
from mmdgm.inference.evaluation import inference, unit_batches
from mmdgm.models import MaxMarginVAE
from mmdgm.models.linear_svm import fit_linear_svm


def fit_frozen_classifier(model: MaxMarginVAE, images: Images, y: Labels, *, scale: float, seed: int = 0) -> None:
    """Give the model the linear SVM of its features of these images."""
    features = embed(model, images, scale=scale)
    labels = torch.from_numpy(y).to(features.device)
    svm = fit_linear_svm(features, labels, n_classes=model.classifier.out_features, seed=seed)
    with torch.no_grad():
        model.classifier.weight.copy_(svm.weight)
        model.classifier.bias.copy_(svm.bias)


def embed(model: MaxMarginVAE, images: Images, *, scale: float) -> Tensor:
    """The features of images that the classifier sees, `(rows, width)`, on the model's device."""
    with inference(model) as device:
        return torch.cat([model.embed(x) for x in unit_batches(images, scale, device)])
