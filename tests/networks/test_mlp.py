"""Multilayer perceptrons against their layers written out."""

import pytest
import torch
from torch.nn.functional import linear, relu, softplus

from mmdgm.networks.mlp import MLPClassifier, MLPDecoder, MLPEncoder

SHAPE, CLASSES = (2, 3, 4), 3


def written_out(stack, x, labels):
    """Each layer as one matrix on [h, y]."""
    hidden = []
    for i, layer in enumerate(stack.layers):
        weight = layer.weight
        if labels is not None:
            weight, x = torch.cat([weight, stack.of_labels[i].weight], dim=1), torch.cat([x, labels], dim=1)
        x = softplus(linear(x, weight, layer.bias))
        hidden.append(x)
    return hidden


def labels_of(n_classes, kind):
    if not n_classes:
        return None
    return torch.eye(CLASSES)[[2, 0, 1, 1]] if kind == "one-hot" else torch.rand(4, CLASSES).softmax(1)


@pytest.mark.parametrize("kind", ["one-hot", "soft"])
@pytest.mark.parametrize("n_classes", [0, CLASSES])
@pytest.mark.parametrize("with_linear", [False, True])
def test_encoder_and_decoder_are_their_layers(n_classes, with_linear, kind):
    torch.manual_seed(0)
    x, z, labels = torch.rand(4, *SHAPE), torch.randn(4, 5), labels_of(n_classes, kind)
    encoder = MLPEncoder(SHAPE, (7, 6), 5, n_classes=n_classes, linear=with_linear)
    encoding = encoder(x, labels)
    hidden = written_out(encoder.stack, x.flatten(1), labels)
    torch.testing.assert_close(list(encoding.hidden), hidden)
    mean = encoder.head.mean(hidden[-1])
    torch.testing.assert_close(encoding.mean, mean + encoder.linear(x.flatten(1)) if with_linear else mean)
    torch.testing.assert_close(encoding.log_variance, encoder.head.log_variance(hidden[-1]))
    assert encoder.hidden_widths == (7, 6)

    decoder = MLPDecoder(5, (6, 7), SHAPE, n_classes=n_classes, linear=with_linear)
    out = decoder.out(written_out(decoder.stack, z, labels)[-1])
    out = out + decoder.linear(z) if with_linear else out
    torch.testing.assert_close(decoder(z, labels), out.reshape(4, *SHAPE))


def test_the_encoder_has_no_dropout():
    torch.manual_seed(0)
    encoder, x = MLPEncoder(SHAPE, (7,), 5), torch.rand(4, *SHAPE)
    assert torch.equal(encoder(x, dropout=0.5).mean, encoder(x).mean)


def test_the_classifier_is_its_layers():
    torch.manual_seed(0)
    classifier, x = MLPClassifier(SHAPE, (7, 6), CLASSES), torch.rand(9, *SHAPE)
    h = x.flatten(1)
    for layer in classifier.layers:
        h = h @ layer.weight.T
        h = relu((h - h.mean(0)) / (h.var(0, unbiased=False) + 1e-5).sqrt())
    torch.testing.assert_close(classifier.features(x), h, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(classifier(x), classifier.last(h), atol=1e-5, rtol=1e-5)


def test_the_classifier_drops_out_at_the_rate_it_is_given():
    torch.manual_seed(0)
    classifier, x = MLPClassifier(SHAPE, (4000,), CLASSES), torch.rand(9, *SHAPE)
    plain, dropped = classifier.features(x), classifier.features(x, dropout=0.75)
    left = dropped != 0
    torch.testing.assert_close(dropped[left], 4 * plain[left])
    assert left[plain > 0].float().mean().item() == pytest.approx(0.25, abs=0.02)
