"""Which layers for which image size: the paper's networks, as values, and functions that build them."""

from dataclasses import dataclass, replace
from typing import TypeVar

from mmdgm.errors import InputError
from mmdgm.networks import (
    ConvClassifier,
    ConvDecoder,
    ConvEncoder,
    Encoder,
    Layer,
    MLPDecoder,
    MLPEncoder,
    Shape,
)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ConvRecipe:
    """Conv encoder and decoder for one image size; `dense_width` units beside z on both sides, if any."""

    encoder: tuple[Layer, ...]
    decoder_start: Shape
    decoder: tuple[Layer, ...]
    dense_width: int = 0


# Conv-VA and Conv-MMVA, by (height, width)
SUPERVISED = {
    (28, 28): ConvRecipe(
        encoder=(
            Layer(32, 5, "valid", pool=True, drop=True),
            Layer(32, 3),
            Layer(64, 3, "valid", pool=True, drop=True),
            Layer(64, 3),
            Layer(64, 3),
        ),
        dense_width=500,
        decoder_start=(64, 5, 5),
        decoder=(
            Layer(64, 3),
            Layer(64, 3, "full", unpool=True),
            Layer(32, 3),
            Layer(32, 3),
            Layer(1, 5, "full", unpool=True),
        ),
    ),
    (8, 8): ConvRecipe(
        encoder=(Layer(32, 3, pool=True, drop=True), Layer(64, 3)),
        dense_width=128,
        decoder_start=(32, 4, 4),
        decoder=(Layer(32, 3), Layer(32, 3, unpool=True), Layer(1, 3)),
    ),
}

# Conv-MMCVA, by (height, width): the class-conditional encoder and decoder ...
CONDITIONAL = {
    (28, 28): ConvRecipe(
        encoder=(
            Layer(32, 5, "valid", pool=True),
            Layer(32, 3),
            Layer(64, 3, "valid", pool=True),
            Layer(64, 3),
            Layer(64, 3),
        ),
        decoder_start=(64, 5, 5),
        decoder=(
            Layer(64, 3),
            Layer(64, 3),
            Layer(32, 3, "full", unpool=True),
            Layer(32, 3),
            Layer(1, 5, "full", unpool=True),
        ),
    ),
    (8, 8): replace(SUPERVISED[8, 8], dense_width=0),
}

# ... and the classifier
CLASSIFIER = {
    (28, 28): (
        Layer(32, 5, "valid", pool=True, drop=True),
        Layer(64, 3),
        Layer(64, 3, "valid", pool=True, drop=True),
        Layer(128, 3),
        Layer(128, 3),
    ),
    (8, 8): (
        Layer(32, 3),
        Layer(32, 3, pool=True, drop=True),
        Layer(64, 3),
        Layer(64, 3),
    ),
}


def mlp_networks(shape: Shape, *, hidden: tuple[int, ...], z: int) -> tuple[Encoder, MLPDecoder]:
    """Encoder and mirrored decoder of MMVA."""
    return MLPEncoder(shape, hidden, z), MLPDecoder(z, hidden[::-1], shape)


def conv_networks(shape: Shape, *, z: int, dropout: float) -> tuple[Encoder, ConvDecoder]:
    """Encoder and decoder of Conv-MMVA; the log-variance head starts at zero."""
    recipe = _for_size(SUPERVISED, shape)
    encoder = ConvEncoder(
        shape, recipe.encoder, z, dense_width=recipe.dense_width, dropout=dropout, zero_log_variance=True
    )
    return encoder, ConvDecoder(z, recipe.decoder_start, recipe.decoder, dense_width=recipe.dense_width)


def conditional_conv_networks(shape: Shape, *, z: int, n_classes: int) -> tuple[Encoder, ConvDecoder]:
    """Class-conditional encoder and decoder of Conv-MMCVA, without dropout."""
    recipe = _for_size(CONDITIONAL, shape)
    encoder = ConvEncoder(shape, recipe.encoder, z, n_classes=n_classes)
    return encoder, ConvDecoder(z, recipe.decoder_start, recipe.decoder, n_classes=n_classes)


def conv_classifier(shape: Shape, *, n_classes: int, dropout: float, narrow: bool) -> ConvClassifier:
    """Classifier of Conv-MMCVA; `narrow` makes its last convolution 1×1 with one channel per class."""
    layers = _for_size(CLASSIFIER, shape)
    if narrow:
        layers = (*layers[:-1], Layer(n_classes, 1))
    return ConvClassifier(shape, layers, n_classes, dropout=dropout)


def _for_size(recipes: dict[tuple[int, int], T], shape: Shape) -> T:
    _, height, width = shape
    if (height, width) not in recipes:
        known = ", ".join(f"{h}×{w}" for h, w in recipes)
        raise InputError(f"there is no conv recipe for {height}×{width} images, only for {known}")
    return recipes[height, width]
