"""The networks of the paper's recipes, layer by layer, and the numbers that go with them."""

import pytest

from mmdgm.experiments.presets import find_preset


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
    assert (model.encoder.z, model.classifier.stack.dropout, model.straight_through) == (128, 0.2, 1e-4)


def test_norb_conditional_networks():
    model = build("norb-mmcva-1000", (1, 32, 32), n_classes=5)
    assert layers(model.encoder.stack) == CONDITIONAL_32
    assert layers(model.decoder.stack) == decoder_32(1)
    assert layers(model.classifier.stack) == [*CLASSIFIER_32[:-1], (10, 1, SAME, False, False, True)]
    assert (model.encoder.z, model.classifier.stack.dropout, model.straight_through) == (100, 0.2, 3e-5)


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
    assert (model.encoder.z, model.encoder.dropout, model.C, model.margin) == (256, 0.3, 1e4, 10.0)
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
    assert (model.encoder.z, model.straight_through) == (100, 3e-3)
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
