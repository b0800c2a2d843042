"""The paper's network architectures for each image size, and functions that build the networks."""

from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from mmdgm.data.batches import Shape
from mmdgm.errors import InputError
from mmdgm.networks.base import Encoder
from mmdgm.networks.conv import ConvClassifier, ConvDecoder, ConvEncoder, Layer
from mmdgm.networks.layers import Conv
from mmdgm.networks.mlp import MLPDecoder, MLPEncoder


@dataclass(frozen=True, kw_only=True)
class ConvRecipe:
    """Layers of the conv encoder and decoder for one image size.

    `dense_width`: units of a dense layer next to z in both networks; 0: no such layer. The images and the likelihood
    determine the channels of the decoder's last layer. `encoder_std`: the encoder's kernels start from N(0, std²)
    instead of Glorot-uniform. (If the decoder's did too, the bound of SVHN's contrast-normalised images would start
    at −8 million nats, instead of −12,000.)
    """

    encoder: tuple[Layer, ...]
    decoder_start: Shape
    decoder: tuple[Layer, ...]
    dense_width: int = 0
    encoder_std: float | None = None


OUTPUTS = 1  # placeholder for the channels of a decoder's last layer

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
            Layer(OUTPUTS, 5, "full", unpool=True),
        ),
    ),
    (32, 32): ConvRecipe(
        encoder=(
            Layer(64, 5, pool=True),
            Layer(64, 3, drop=True),
            Layer(64, 3, pool=True, drop=True),
            Layer(96, 3, drop=True),
            Layer(96, 3, pool=True),
        ),
        decoder_start=(96, 4, 4),
        decoder=(
            Layer(96, 3, unpool=True),
            Layer(64, 3),
            Layer(64, 3, unpool=True),
            Layer(64, 3),
            Layer(OUTPUTS, 5, unpool=True),
        ),
        encoder_std=0.1,
    ),
    (8, 8): ConvRecipe(
        encoder=(Layer(32, 3, pool=True, drop=True), Layer(64, 3)),
        dense_width=128,
        decoder_start=(32, 4, 4),
        decoder=(Layer(32, 3), Layer(32, 3, unpool=True), Layer(OUTPUTS, 3)),
    ),
}

# class-conditional encoder and decoder of Conv-MMCVA, by (height, width)
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
            Layer(OUTPUTS, 5, "full", unpool=True),
        ),
    ),
    (32, 32): ConvRecipe(
        encoder=(
            Layer(32, 5, pool=True),
            Layer(64, 3),
            Layer(64, 3, pool=True),
            Layer(128, 3),
            Layer(128, 3, pool=True),
        ),
        decoder_start=(128, 4, 4),
        decoder=(
            Layer(128, 3, unpool=True),
            Layer(64, 3),
            Layer(64, 3, unpool=True),
            Layer(32, 3),
            Layer(OUTPUTS, 5, unpool=True),
        ),
    ),
    (8, 8): replace(SUPERVISED[8, 8], dense_width=0),
}

# classifier of Conv-MMCVA, by (height, width)
CLASSIFIER = {
    (28, 28): (
        Layer(32, 5, "valid", pool=True, drop=True),
        Layer(64, 3),
        Layer(64, 3, "valid", pool=True, drop=True),
        Layer(128, 3),
        Layer(128, 3),
    ),
    (32, 32): (
        Layer(32, 3),
        Layer(32, 3, pool=True, drop=True),
        Layer(64, 3),
        Layer(64, 3, pool=True, drop=True),
        Layer(128, 3),
        Layer(128, 3, drop=True),
    ),
    (8, 8): (
        Layer(32, 3),
        Layer(32, 3, pool=True, drop=True),
        Layer(64, 3),
        Layer(64, 3),
    ),
}


# classifiers beyond the paper; "fast" turns 2×2 pixels into 4 times the channels
ClassifierName = Literal["paper", "fast", "wide"]
BEYOND = {
    "fast": (
        Layer(64, 3),
        Layer(64, 3, pool=True),
        Layer(128, 3),
        Layer(128, 3, drop=True),
        Layer(192, 3, pool=True),
        Layer(256, 3, drop=True),
    ),
    "wide": (
        Layer(64, 3),
        Layer(64, 3, pool=True),
        Layer(128, 3),
        Layer(128, 3, pool=True, drop=True),
        Layer(256, 3),
        Layer(256, 3, pool=True, drop=True),
        Layer(256, 3),
    ),
}


def mlp_networks(
    shape: Shape, *, hidden: tuple[int, ...], z: int, maps: int = 1, n_classes: int = 0, linear: bool = False
) -> tuple[Encoder, MLPDecoder]:
    """Encoder and mirrored decoder of MMVA. The decoder returns `maps` numbers for each value of x.

    `n_classes` > 0 conditions both on labels. `linear` adds linear functions beside the layers.
    """
    channels, height, width = shape
    encoder = MLPEncoder(shape, hidden, z, n_classes=n_classes, linear=linear)
    out = (maps * channels, height, width)
    return encoder, MLPDecoder(z, hidden[::-1], out, n_classes=n_classes, linear=linear)


def conv_networks(shape: Shape, *, z: int, maps: int = 1, wide: bool = False) -> tuple[Encoder, ConvDecoder]:
    """Encoder and decoder of Conv-MMVA. The log-variance head starts at zero.

    `wide`: the encoder has the layers of the wide classifier, with batch norm.
    """
    recipe = SUPERVISED.get(_size(shape)) or _conv_recipe(SUPERVISED, *_size(shape))
    if wide:
        recipe = replace(recipe, encoder=BEYOND["wide"], encoder_std=None)
    encoder = ConvEncoder(
        shape,
        recipe.encoder,
        z,
        dense_width=0 if wide else recipe.dense_width,
        zero_log_variance=True,
        batch_norm=wide,
    )
    decoder = ConvDecoder(
        z, recipe.decoder_start, _ending_in(maps * shape[0], recipe.decoder), dense_width=recipe.dense_width
    )
    if recipe.encoder_std is not None:
        for layer in encoder.stack.convs:
            assert isinstance(layer, Conv)
            nn.init.normal_(layer.conv.weight, std=recipe.encoder_std)
    return encoder, decoder


def conditional_conv_networks(shape: Shape, *, z: int, n_classes: int, maps: int = 1) -> tuple[Encoder, ConvDecoder]:
    """Class-conditional encoder and decoder of Conv-MMCVA, without dropout."""
    recipe = CONDITIONAL.get(_size(shape)) or _conv_recipe(CONDITIONAL, *_size(shape))
    encoder = ConvEncoder(shape, recipe.encoder, z, n_classes=n_classes)
    layers = _ending_in(maps * shape[0], recipe.decoder)
    return encoder, ConvDecoder(z, recipe.decoder_start, layers, n_classes=n_classes)


def conv_classifier(
    shape: Shape,
    *,
    n_classes: int,
    narrow: bool = False,
    kind: ClassifierName = "paper",
    standardise: bool = False,
) -> ConvClassifier:
    """Classifier of Conv-MMCVA. `narrow` makes its last convolution 1×1 with max(10, `n_classes`) channels."""
    layers = CLASSIFIER.get(_size(shape)) or CLASSIFIER[32, 32]
    if kind != "paper":
        layers = BEYOND[kind]
    if narrow:
        layers = (*layers[:-1], layers[-1]._replace(channels=max(10, n_classes), kernel=1))
    return ConvClassifier(shape, layers, n_classes, standardise=standardise, folded=kind == "fast")


def _any_size(height: int, width: int, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Layers with two poolings, or three if the sides allow it. Later poolings are removed."""
    halvings = 3 if height % 8 == width % 8 == 0 and min(height, width) >= 16 else 2
    pools = [i for i, layer in enumerate(layers) if layer.pool][:halvings]
    return tuple(layer._replace(pool=i in pools) for i, layer in enumerate(layers))


def _conv_recipe(recipes: dict[tuple[int, int], ConvRecipe], height: int, width: int) -> ConvRecipe:
    """The 32×32 recipe adapted to another size."""
    like = recipes[32, 32]
    encoder = _any_size(height, width, like.encoder)
    halvings = sum(layer.pool for layer in encoder)
    unpools = [i for i, layer in enumerate(like.decoder) if layer.unpool][-halvings:]
    start = (like.decoder_start[0], height >> halvings, width >> halvings)
    decoder = tuple(layer._replace(unpool=i in unpools) for i, layer in enumerate(like.decoder))
    return replace(like, encoder=encoder, decoder_start=start, decoder=decoder)


def _ending_in(channels: int, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    return (*layers[:-1], layers[-1]._replace(channels=channels))


def _size(shape: Shape) -> tuple[int, int]:
    """Height and width. Raises InputError if conv nets cannot be built for them."""
    _, height, width = shape
    if height % 4 or width % 4 or min(height, width) < 8:
        raise InputError(f"conv nets want images whose sides are multiples of 4, 8 or more, not {height}×{width}")
    return height, width
