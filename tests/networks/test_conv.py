"""Stacks of convolutions against the same in torch's own words; where they drop out; where they see labels."""

import pytest
import torch
from torch.nn.functional import conv2d, max_pool2d, relu

from mmdgm.networks import conv
from mmdgm.networks.conv import ConvClassifier, ConvDecoder, ConvEncoder, ConvStack, Layer

RECIPE = (Layer(6, 3, pool=True, drop=True), Layer(5, 3, "valid"), Layer(4, 3, "full", pool=True, drop=True))
CLASSES = 3


@pytest.fixture(name="x")
def make_x():
    torch.manual_seed(0)
    return torch.rand(7, 2, 12, 8)


@pytest.fixture(name="rates")
def make_rates(monkeypatch):
    """The rates that dropout is asked for; nothing is dropped."""
    rates = []
    monkeypatch.setattr(conv, "drop_out", lambda x, rate: rates.append(rate) or x)
    return rates


def written_out(stack, x, *, linear_end=False):
    for i, (layer, module) in enumerate(zip(stack.recipe, stack.convs, strict=True)):
        padding = {"valid": 0, "same": layer.kernel // 2, "full": layer.kernel - 1}[layer.padding]
        x = conv2d(x, module.conv.weight, module.conv.bias, padding=padding)
        if len(stack.norms) and isinstance(stack.norms[i], torch.nn.BatchNorm2d):
            mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
            x = (x - mean) / (variance + 1e-5).sqrt()
        x = x if linear_end and i == len(stack.recipe) - 1 else relu(x)
        x = max_pool2d(x, 2) if layer.pool else x
    return x


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("linear_end", [False, True])
def test_a_stack_is_its_layers(x, batch_norm, linear_end):
    stack = ConvStack((2, 12, 8), RECIPE, batch_norm=batch_norm, linear_end=linear_end)
    for module in stack.convs:
        assert (module.conv.bias is None) == batch_norm
    expected = written_out(stack, x, linear_end=linear_end)
    torch.testing.assert_close(stack(x), expected, atol=1e-5, rtol=1e-5)
    assert expected.shape[1:] == stack.out_shape == (4, 3, 2)


def test_dropout_is_where_the_recipe_says_at_the_rate_that_is_given(x, rates):
    stack = ConvStack((2, 12, 8), RECIPE)
    stack(x, dropout=0.3)
    stack(x)
    assert rates == [0.3, 0.3, 0.0, 0.0]


@pytest.mark.parametrize("dense_width", [0, 9])
def test_an_encoder_s_features_are_its_last_activation(x, rates, dense_width):
    encoder = ConvEncoder((2, 12, 8), RECIPE, 5, dense_width=dense_width)
    encoding = encoder(x, dropout=0.4)
    features = written_out(encoder.stack, x).flatten(1)
    features = relu(encoder.dense(features)) if dense_width else features
    torch.testing.assert_close(encoding.hidden[0], features, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(encoding.mean, encoder.head.mean(features), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(encoding.log_variance, encoder.head.log_variance(features), atol=1e-5, rtol=1e-5)
    assert encoder.hidden_widths == (dense_width or 24,) == (features.shape[1],)
    assert rates == [0.4] * (3 if dense_width else 2)


def test_a_classifier_is_layers_with_batch_norm_and_the_mean_over_places(x, rates):
    classifier = ConvClassifier((2, 12, 8), RECIPE, CLASSES)
    features = written_out(classifier.stack, x).mean((2, 3))
    torch.testing.assert_close(classifier.features(x, dropout=0.2), features, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(classifier(x), classifier.last(features), atol=1e-5, rtol=1e-5)
    assert rates == [0.2, 0.2, 0.0, 0.0]


@pytest.mark.parametrize("dense_width", [0, 9])
def test_a_decoder_ends_without_a_bound(dense_width):
    torch.manual_seed(0)
    decoder = ConvDecoder(5, (4, 3, 2), (Layer(6, 3, unpool=True), Layer(2, 3)), dense_width=dense_width)
    z = torch.randn(7, 5)
    h = relu(decoder.dense[0](z))
    h = relu(decoder.dense[1](h)) if dense_width else h
    h = h.reshape(7, 4, 3, 2)
    unpooled = torch.zeros(7, 4, 6, 4)
    unpooled[:, :, ::2, ::2] = h
    first, last = (module.conv for module in decoder.stack.convs)
    h = relu(conv2d(unpooled, first.weight.flip(2, 3).transpose(0, 1), first.bias, padding=1))
    out = decoder(z)
    torch.testing.assert_close(out, conv2d(h, last.weight, last.bias, padding=1), atol=1e-5, rtol=1e-5)
    assert out.min() < 0 < out.max()


def test_every_convolution_of_a_conditional_stack_sees_the_labels(x):
    labels = torch.eye(CLASSES)[torch.arange(7) % CLASSES].requires_grad_()
    stack = ConvStack((2, 12, 8), RECIPE, n_classes=CLASSES)
    plain = stack(x, labels)
    (gradient,) = torch.autograd.grad(plain.square().sum(), labels)
    assert gradient.abs().sum() > 0
    for module in stack.convs:
        kept = module.label_maps.weight.detach().clone()
        with torch.no_grad():
            module.label_maps.weight.zero_()
        assert not torch.allclose(stack(x, labels), plain)
        with torch.no_grad():
            module.label_maps.weight.copy_(kept)


def test_soft_labels_of_a_conditional_stack_are_soft_maps(x):
    """Label maps beside the image at every layer, written out."""
    labels = torch.rand(7, CLASSES, generator=torch.Generator().manual_seed(0)).softmax(1)
    stack = ConvStack((2, 12, 8), RECIPE[:2], n_classes=CLASSES)
    h = x
    for layer, module in zip(stack.recipe, stack.convs, strict=True):
        of_labels = module.label_maps.weight.reshape(CLASSES, 3, 3, -1).permute(3, 0, 1, 2)
        weight = torch.cat([module.conv.weight, of_labels], dim=1)
        h = torch.cat([h, labels[:, :, None, None].expand(-1, -1, *h.shape[2:])], dim=1)
        h = relu(conv2d(h, weight, module.conv.bias, padding=0 if layer.padding == "valid" else 1))
        h = max_pool2d(h, 2) if layer.pool else h
    torch.testing.assert_close(stack(x, labels), h, atol=1e-5, rtol=1e-5)
