"""Stacks of convolutions against the same in torch's own words; where they drop out; where they see labels."""

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, max_pool2d, relu

from mmdgm.networks import conv
from mmdgm.networks.conv import ConvClassifier, ConvDecoder, ConvEncoder, ConvStack, Layer

RECIPE = (Layer(6, 3, pool=True, drop=True), Layer(5, 3, "valid"), Layer(4, 3, "full", pool=True, drop=True))
SMALL = (Layer(6, 3, pool=True), Layer(5, 3))
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


def seen_by_the_stack(classifier, x):
    seen = []
    handle = classifier.stack.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    classifier(x)
    handle.remove()
    return seen[0]


def test_a_folded_classifier_sees_four_pixels_as_four_times_the_channels(x):
    classifier = ConvClassifier((2, 12, 8), SMALL, CLASSES, folded=True)
    folded = np.empty((7, 8, 6, 4), dtype=np.float32)
    for channel in range(2):
        for v in range(2):
            for u in range(2):
                folded[:, 4 * channel + 2 * v + u] = x[:, channel, v::2, u::2]
    assert torch.equal(seen_by_the_stack(classifier, x), torch.from_numpy(folded))
    plain = ConvClassifier((8, 6, 4), SMALL, CLASSES)
    plain.load_state_dict(classifier.state_dict())
    torch.testing.assert_close(classifier(x), plain(torch.from_numpy(folded)))


@pytest.mark.parametrize("folded", [False, True])
def test_standardised_images_have_mean_0_and_deviation_1(x, folded):
    torch.manual_seed(0)
    x = x * torch.tensor([0.1, 0.5, 1, 2, 3, 5, 100]).view(7, 1, 1, 1) + torch.randn(7, 1, 1, 1)
    classifier = ConvClassifier((2, 12, 8), SMALL, CLASSES, standardise=True, folded=folded).eval()
    seen = seen_by_the_stack(classifier, x)
    rows = x.flatten(1).double().numpy()
    deviation = rows.std(axis=1)
    found = seen.flatten(1).double().numpy()
    np.testing.assert_allclose(found.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=1), deviation / (deviation + conv.LEAST_DEVIATION), rtol=1e-4)
    if not folded:
        expected = (rows - rows.mean(axis=1, keepdims=True)) / (deviation + conv.LEAST_DEVIATION)[:, None]
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("folded", [False, True])
def test_scores_of_standardised_images_know_no_brightness_and_contrast(x, folded):
    classifier = ConvClassifier((2, 12, 8), SMALL, CLASSES, standardise=True, folded=folded).double().eval()
    x = x.double()
    scores = classifier(x)
    torch.testing.assert_close(classifier(x + 0.7), scores)
    deviation = x.flatten(1).std(dim=1, unbiased=False)
    for a, b in ((0.5, 0.0), (3.0, -1.0), (1000.0, 5.0)):
        found = classifier(a * x + b)
        # no further off than the constant beside the deviation makes it: features and scores without bias scale
        factor = (a * deviation / (a * deviation + 0.01)) / (deviation / (deviation + 0.01))
        assert (factor - 1).abs().max() < 0.05
        torch.testing.assert_close(found, scores * factor[:, None])
    plain = ConvClassifier((2, 12, 8), SMALL, CLASSES, folded=folded).double().eval()
    plain.load_state_dict(classifier.state_dict())
    assert not torch.allclose(plain(3 * x), plain(x), rtol=0.5)


def test_an_image_of_one_value_is_nothing_but_finite():
    classifier = ConvClassifier((2, 12, 8), SMALL, CLASSES, standardise=True)
    assert not seen_by_the_stack(classifier, torch.full((3, 2, 12, 8), 0.5)).any()
    assert classifier(torch.full((3, 2, 12, 8), 0.5)).isfinite().all()


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
