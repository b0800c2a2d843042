"""The networks of the paper's recipes, layer by layer, and the numbers that go with them."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mmdgm.errors import InputError
from mmdgm.experiments.presets import find_preset
from mmdgm.networks.architectures import (
    conditional_conv_networks,
    conv_classifier,
    conv_networks,
    mlp_networks,
)


def layers(stack):
    """(channels, kernel, padding, pool, unpool, drop) of each layer."""
    return [tuple(layer) for layer in stack.recipe]


def build(preset, shape, n_classes=10):
    return find_preset(preset).config.model.build(shape, n_classes=n_classes, n_rows=1)


SAME, VALID, FULL = "same", "valid", "full"
CONDITIONAL_32 = [
    (32, 5, SAME, True, False, False),
    (64, 3, SAME, False, False, False),
    (64, 3, SAME, True, False, False),
    (128, 3, SAME, False, False, False),
    (128, 3, SAME, True, False, False),
]


def decoder_32(channels):
    return [
        (128, 3, SAME, False, True, False),
        (64, 3, SAME, False, False, False),
        (64, 3, SAME, False, True, False),
        (32, 3, SAME, False, False, False),
        (channels, 5, SAME, False, True, False),
    ]


CLASSIFIER_32 = [
    (32, 3, SAME, False, False, False),
    (32, 3, SAME, True, False, True),
    (64, 3, SAME, False, False, False),
    (64, 3, SAME, True, False, True),
    (128, 3, SAME, False, False, False),
    (128, 3, SAME, False, False, True),
]


def test_svhn_conditional_networks():
    model = build("svhn-mmcva-1000", (3, 32, 32))
    assert layers(model.encoder.stack) == CONDITIONAL_32
    assert layers(model.decoder.stack) == decoder_32(3)
    assert layers(model.classifier.stack) == CLASSIFIER_32
    assert (model.encoder.z, model.settings.dropout, model.settings.straight_through) == (128, 0.2, 1e-4)


def test_norb_conditional_networks():
    model = build("norb-mmcva-1000", (1, 32, 32), n_classes=5)
    assert layers(model.encoder.stack) == CONDITIONAL_32
    assert layers(model.decoder.stack) == decoder_32(1)
    assert layers(model.classifier.stack) == [*CLASSIFIER_32[:-1], (10, 1, SAME, False, False, True)]
    assert (model.encoder.z, model.settings.dropout, model.settings.straight_through) == (100, 0.2, 3e-5)


def test_svhn_supervised_networks():
    model = build("svhn-conv-mmva", (3, 32, 32))
    assert layers(model.encoder.stack) == [
        (64, 5, SAME, True, False, False),
        (64, 3, SAME, False, False, True),
        (64, 3, SAME, True, False, True),
        (96, 3, SAME, False, False, True),
        (96, 3, SAME, True, False, False),
    ]
    assert layers(model.decoder.stack) == [
        (96, 3, SAME, False, True, False),
        (64, 3, SAME, False, False, False),
        (64, 3, SAME, False, True, False),
        (64, 3, SAME, False, False, False),
        (6, 5, SAME, False, True, False),  # a mean and a log-variance of each colour
    ]
    assert model.encoder.hidden_widths == (4 * 4 * 96,)
    settings = model.settings
    assert (model.encoder.z, settings.dropout, settings.C, settings.margin) == (256, 0.3, 1e4, 10.0)
    kernels = [conv.conv.weight for conv in model.encoder.stack.convs]
    assert [kernel.std().item() for kernel in kernels] == pytest.approx([0.1] * 5, rel=0.05)


def test_mnist_networks():
    classifier = [
        (32, 5, VALID, True, False, True),
        (64, 3, SAME, False, False, False),
        (64, 3, VALID, True, False, True),
        (128, 3, SAME, False, False, False),
        (128, 3, SAME, False, False, False),
    ]
    model = build("mnist-mmcva-100", (1, 28, 28))
    assert layers(model.classifier.stack) == classifier
    assert [layer[:4] for layer in layers(model.encoder.stack)] == [
        (32, 5, VALID, True),
        (32, 3, SAME, False),
        (64, 3, VALID, True),
        (64, 3, SAME, False),
        (64, 3, SAME, False),
    ]
    assert layers(model.decoder.stack) == [
        (64, 3, SAME, False, False, False),
        (64, 3, SAME, False, False, False),
        (32, 3, FULL, False, True, False),
        (32, 3, SAME, False, False, False),
        (1, 5, FULL, False, True, False),
    ]
    assert (model.encoder.z, model.settings.straight_through) == (100, 3e-3)
    narrow = build("mnist-mmcva-1000", (1, 28, 28))
    assert layers(narrow.classifier.stack) == [*classifier[:-1], (10, 1, SAME, False, False, False)]


@pytest.mark.parametrize(
    ("preset", "labeled", "unlabeled"),
    [
        ("mnist-mmcva-100-authors", 100, 500),
        ("svhn-mmcva-1000", 500, 500),
        ("norb-mmcva-1000", 1000, 1000),
    ],
)
def test_batches(preset, labeled, unlabeled):
    training = find_preset(preset).config.training
    assert (training.batch, training.unlabeled_batch) == (labeled, unlabeled)
    model = find_preset(preset).config.model
    assert (model.alpha, model.hat_weight, model.balance_weight, model.margin) == (0.1, 0.3, 1e-3, 1.0)


WIDE = [
    (64, 3, SAME, False, False, False),
    (64, 3, SAME, True, False, False),
    (128, 3, SAME, False, False, False),
    (128, 3, SAME, True, False, True),
    (256, 3, SAME, False, False, False),
    (256, 3, SAME, True, False, True),
    (256, 3, SAME, False, False, False),
]
FAST = [
    (64, 3, SAME, False, False, False),
    (64, 3, SAME, True, False, False),
    (128, 3, SAME, False, False, False),
    (128, 3, SAME, False, False, True),
    (192, 3, SAME, True, False, False),
    (256, 3, SAME, False, False, True),
]


@pytest.mark.parametrize(
    ("preset", "shape", "n_classes", "z"),
    [("svhn-mmcva-1000-modern", (3, 32, 32), 10, 128), ("norb-mmcva-1000-modern", (1, 32, 32), 5, 100)],
)
def test_modern_networks(preset, shape, n_classes, z):
    """Encoder and decoder are the paper's, the classifier is another, with an average."""
    model = build(preset, shape, n_classes)
    assert layers(model.encoder.stack) == CONDITIONAL_32
    assert layers(model.decoder.stack) == decoder_32(shape[0])
    assert model.encoder.z == z
    for classifier in (model.classifier, model.average.classifier):
        assert layers(classifier.stack) == WIDE
        assert (classifier.standardise, classifier.folded) == (True, False)
    assert model.scores(torch.rand(2, *shape)).shape == (2, n_classes)
    training = find_preset(preset).config.training
    assert (training.batch, training.unlabeled_batch) == (64, 448)
    assert (training.decoupled_decay, training.beta2) == (True, 0.99)


def multiply_adds(classifier, shape):
    with FlopCounterMode(display=False) as counter:
        classifier.eval()(torch.rand(1, *shape))
    return counter.get_total_flops() / 2


def in_a_stack(recipe, channels, side):
    """Multiply-adds of 3×3 convolutions, by hand."""
    total = 0
    for out, kernel, _, pool, *_ in recipe:
        total += side**2 * kernel**2 * channels * out
        channels, side = out, side // 2 if pool else side
    return total


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("kind", "recipe", "features", "millions"),
    [("paper", CLASSIFIER_32, 128, 38), ("fast", FAST, 256, 46), ("wide", WIDE, 256, 161)],
)
def test_classifiers_beyond_the_paper_s(kind, recipe, features, millions, channels):
    shape = (channels, 32, 32)
    classifier = conv_classifier(shape, n_classes=7, kind=kind)
    assert layers(classifier.stack) == recipe
    assert classifier.folded == (kind == "fast")
    x = torch.rand(2, *shape)
    assert classifier.features(x).shape == (2, features)
    assert classifier(x).shape == (2, 7)
    start = (4 * channels, 16) if kind == "fast" else (channels, 32)
    by_hand = in_a_stack(recipe, *start) + 7 * features
    assert multiply_adds(classifier, shape) == by_hand
    assert by_hand == pytest.approx(1e6 * millions, rel=0.03)


SIZES = [(8, 8), (12, 20), (16, 16), (16, 24), (24, 12), (28, 28), (32, 32), (40, 36), (64, 48)]


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("maps", [1, 2])
@pytest.mark.parametrize("channels", [1, 3])
def test_conv_nets_of_any_size_give_back_images_of_that_size(height, width, channels, maps):
    shape = (channels, height, width)
    x = torch.rand(2, *shape)
    encoder, decoder = conv_networks(shape, z=5, maps=maps)
    encoding = encoder(x)
    assert encoding.mean.shape == encoding.log_variance.shape == (2, 5)
    assert tuple(part.shape[1] for part in encoding.hidden) == encoder.hidden_widths
    assert decoder(encoding.mean).shape == (2, maps * channels, height, width)
    assert not encoder.head.log_variance.weight.any()  # starts at variance 1
    assert (encoding.log_variance == 0).all()


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_conditional_conv_nets_of_any_size(height, width):
    shape = (2, height, width)
    labels = torch.eye(3)[[2, 0]]
    encoder, decoder = conditional_conv_networks(shape, z=5, n_classes=3)
    assert encoder(torch.rand(2, *shape), labels).mean.shape == (2, 5)
    z = torch.randn(1, 5).expand(2, 5)
    images = decoder(z, labels)
    assert images.shape == (2, *shape)
    assert not torch.allclose(images[0], images[1])  # of one code, but of two classes
    for narrow, last in ((False, 64 if (height, width) == (8, 8) else 128), (True, 10)):
        classifier = conv_classifier(shape, n_classes=3, narrow=narrow)
        assert classifier.features(torch.rand(2, *shape)).shape == (2, last)
        assert classifier(torch.rand(2, *shape)).shape == (2, 3)
        for kind in ("fast", "wide"):
            beyond = conv_classifier(shape, n_classes=3, narrow=narrow, kind=kind, standardise=True)
            assert beyond.features(torch.rand(2, *shape)).shape == (2, 10 if narrow else 256)
            assert beyond.standardise


def test_a_narrow_classifier_has_a_channel_for_each_class_at_least():
    assert conv_classifier((1, 8, 8), n_classes=37, narrow=True).last.in_features == 37


@pytest.mark.parametrize(
    ("size", "pools"), [((16, 16), 3), ((12, 20), 2), ((64, 48), 3), ((40, 36), 2), ((12, 8), 2), ((32, 32), 3)]
)
def test_sides_are_halved_three_times_where_they_can_be(size, pools):
    for build_networks in (conv_networks, lambda *a, **k: conditional_conv_networks(*a, n_classes=2, **k)):
        encoder, decoder = build_networks((1, *size), z=2)
        assert sum(layer.pool for layer in encoder.stack.recipe) == pools
        assert sum(layer.unpool for layer in decoder.stack.recipe) == pools
        assert encoder.stack.out_shape[1:] == tuple(side >> pools for side in size) == decoder.start[1:]


@pytest.mark.parametrize("size", [(30, 28), (28, 30), (4, 8), (8, 4), (9, 9)])
def test_other_sizes_are_refused(size):
    for build_networks in (
        lambda shape: conv_networks(shape, z=2),
        lambda shape: conditional_conv_networks(shape, z=2, n_classes=2),
        lambda shape: conv_classifier(shape, n_classes=2, narrow=False),
    ):
        with pytest.raises(InputError, match=f"{size[0]}×{size[1]}"):
            build_networks((1, *size))


@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize("linear", [False, True])
def test_mlps_mirror_each_other(n_classes, linear):
    encoder, decoder = mlp_networks((2, 3, 4), hidden=(7, 6), z=5, maps=2, n_classes=n_classes, linear=linear)
    assert [tuple(layer.weight.shape) for layer in encoder.stack.layers] == [(7, 24), (6, 7)]
    assert [tuple(layer.weight.shape) for layer in decoder.stack.layers] == [(6, 5), (7, 6)]
    labels = torch.eye(3)[:2] if n_classes else None
    encoding = encoder(torch.rand(2, 2, 3, 4), labels)
    assert encoding.mean.shape == (2, 5)
    assert decoder(encoding.mean, labels).shape == (2, 4, 3, 4)
    assert (encoder.linear is not None) == (decoder.linear is not None) == linear
