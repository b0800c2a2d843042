"""The fast layers against the literal forms that they stand for, values and gradients."""

import pytest
import torch
from torch.nn.functional import conv2d, one_hot

from mmdgm.networks.layers import (
    BatchNorm,
    Conv,
    dense,
    drop_out,
    is_one_hot,
    label_kernels,
    padding_width,
    single_channel_conv,
)

CLASSES = 4


def unpool(x):
    """Each value to the top-left corner of its 2×2 block, zeros elsewhere."""
    rows, channels, height, width = x.shape
    out = x.new_zeros(rows, channels, 2 * height, 2 * width)
    out[:, :, ::2, ::2] = x
    return out


def literal(layer, x, labels, *, kernel, padding, unpooled):
    """Concatenate label maps, unpool, convolve: the paper's words, with the fast layer's parameters."""
    weight = layer.conv.weight
    if unpooled:
        weight = weight.flip(2, 3).transpose(0, 1)  # transposed convolutions keep (in, out) and no flip
    if layer.label_maps is not None:
        label_weight = layer.label_maps.weight.reshape(CLASSES, kernel, kernel, -1).permute(3, 0, 1, 2)
        if unpooled:
            label_weight = label_weight.flip(2, 3)
        weight = torch.cat([weight, label_weight], dim=1)
        maps = labels[:, :, None, None].expand(-1, -1, *x.shape[2:])
        x = torch.cat([x, maps], dim=1)
    return conv2d(unpool(x) if unpooled else x, weight, layer.conv.bias, padding=padding_width(kernel, padding))


def kernels_of(layer, labels):
    return None if layer.label_maps is None else label_kernels([layer.label_maps], labels)[0]


@pytest.mark.parametrize("conditioned", [True, False])
@pytest.mark.parametrize("unpooled", [True, False])
@pytest.mark.parametrize("padding", ["valid", "same", "full"])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("channels", [(3, 5), (3, 1), (1, 5)])
def test_fast_convolution_is_the_literal_one(channels, kernel, padding, unpooled, conditioned):
    torch.manual_seed(0)
    layer = Conv(
        *channels, kernel, size=(6, 7), padding=padding, unpool=unpooled, n_classes=CLASSES if conditioned else 0
    )
    torch.nn.init.normal_(layer.conv.bias)
    x = torch.randn(8, channels[0], 6, 7, requires_grad=True)
    labels = one_hot(torch.arange(8) % CLASSES, CLASSES).float().requires_grad_()
    fast = layer(x, kernels_of(layer, labels))
    slow = literal(layer, x, labels, kernel=kernel, padding=padding, unpooled=unpooled)
    assert fast.shape[2:] == layer.out_size
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)

    # gradients in double precision, where rounding leaves no room for a wrong one
    layer.double()
    x, labels = (t.detach().double().requires_grad_() for t in (x, labels))
    fast = layer(x, kernels_of(layer, labels))
    slow = literal(layer, x, labels, kernel=kernel, padding=padding, unpooled=unpooled)
    inputs = [x, *([labels] if conditioned else []), *layer.parameters()]
    weighting = torch.randn_like(slow)
    for one, other in zip(
        torch.autograd.grad((fast * weighting).sum(), inputs),
        torch.autograd.grad((slow * weighting).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_output_sizes_of_the_paddings():
    sizes = {p: Conv(1, 1, 5, size=(10, 10), padding=p).out_size for p in ("valid", "same", "full")}
    assert sizes == {"valid": (6, 6), "same": (10, 10), "full": (14, 14)}
    assert Conv(1, 1, 3, size=(5, 5), padding="full", unpool=True).out_size == (12, 12)


def test_label_maps_of_a_valid_convolution_cost_one_number_per_channel():
    maps = Conv(1, 8, 3, size=(9, 9), padding="valid", n_classes=2).label_maps
    assert maps(*label_kernels([maps], torch.eye(2))).shape == (2, 8, 1, 1)


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_no_rows_give_no_maps(padding):
    conv = Conv(2, 3, 3, size=(6, 4), padding=padding, n_classes=5)
    out = conv(torch.zeros(0, 2, 6, 4), *label_kernels([conv.label_maps], torch.zeros(0, 5)))
    assert out.shape == (0, 3, *conv.out_size)


@pytest.mark.parametrize("unpooled", [True, False])
def test_label_maps_are_the_same_in_the_form_for_the_compiler(monkeypatch, unpooled):
    torch.manual_seed(0)
    maps = Conv(3, 5, 3, size=(6, 7), unpool=unpooled, n_classes=CLASSES).label_maps
    kernels, weighting = torch.randn(8, 45, requires_grad=True), None
    results = []
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiling=compiling: compiling)
        added = maps(kernels)
        weighting = torch.randn_like(added) if weighting is None else weighting
        results.append((added, *torch.autograd.grad((added * weighting).sum(), kernels)))
    torch.testing.assert_close(*results)


def test_kernels_of_several_layers_are_those_of_each():
    torch.manual_seed(0)
    maps = [Conv(3, out, 3, size=(6, 7), n_classes=CLASSES).label_maps for out in (2, 5)]
    labels = one_hot(torch.arange(8) % CLASSES, CLASSES).float().requires_grad_()
    for kernels, layer in zip(label_kernels(maps, labels), maps, strict=True):
        product = labels @ layer.weight
        torch.testing.assert_close(kernels, product)
        weighting = torch.randn_like(product)
        gradients = [
            torch.autograd.grad((result * weighting).sum(), [labels, layer.weight]) for result in (kernels, product)
        ]
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([[0, 1, 0], [1, 0, 0]], True),
        ([[0, 0, 1]], True),
        ([[0.5, 0.5, 0], [1, 0, 0]], False),
        ([[0, 1, 0], [0, 0, 0]], False),
        ([[0, 1, 1]], False),
        ([[0, 2, 0]], False),
        ([[1, -1, 0]], False),
        ([[1, 0, 1e-9]], False),
        ([[0.999, 0, 0]], False),
        ([[float("nan"), 1, 0]], False),
    ],
)
def test_one_hot_labels_are_a_single_1_among_zeros(labels, expected):
    assert is_one_hot(torch.tensor(labels, dtype=torch.float64)) is expected


def test_no_labels_at_all_have_no_kernels():
    maps = Conv(3, 2, 3, size=(6, 7), n_classes=CLASSES).label_maps
    (kernels,) = label_kernels([maps], torch.zeros(0, CLASSES))
    assert kernels.shape == (0, 9 * 2)


SOFT = {
    "shares": torch.rand(8, CLASSES, generator=torch.Generator().manual_seed(0)).softmax(1),
    "one soft row": torch.cat([torch.eye(CLASSES), torch.full((1, CLASSES), 1 / CLASSES)]),
    "zeros": torch.zeros(3, CLASSES),
    "two classes": torch.tensor([[1.0, 1.0, 0.0, 0.0]]),
    "any numbers": torch.randn(8, CLASSES, generator=torch.Generator().manual_seed(1)),
    "one-hot": torch.eye(CLASSES)[[2, 0, 0, 3]],
}


@pytest.mark.parametrize("labels", SOFT.values(), ids=SOFT)
def test_kernels_of_any_labels_are_the_product_with_the_weights(labels):
    torch.manual_seed(0)
    maps = [Conv(3, out, 3, size=(6, 7), n_classes=CLASSES).double().label_maps for out in (2, 5)]
    labels = labels.double().requires_grad_()
    weights = [layer.weight for layer in maps]
    weightings = [torch.randn(len(labels), 9 * out, dtype=torch.float64) for out in (2, 5)]
    gradients = []
    for results in (label_kernels(maps, labels), [labels @ weight for weight in weights]):
        torch.testing.assert_close(list(results), [labels @ weight for weight in weights], atol=1e-12, rtol=0)
        total = sum((kernels * w).sum() for kernels, w in zip(results, weightings, strict=True))
        gradients.append(torch.autograd.grad(total, [labels, *weights]))
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)


@pytest.mark.parametrize("unpooled", [True, False])
@pytest.mark.parametrize("padding", ["valid", "same", "full"])
def test_a_convolution_over_soft_label_maps_is_the_literal_one(padding, unpooled):
    torch.manual_seed(0)
    layer = Conv(3, 5, 3, size=(6, 7), padding=padding, unpool=unpooled, n_classes=CLASSES).double()
    x = torch.randn(8, 3, 6, 7, dtype=torch.float64)
    labels = SOFT["shares"].double()
    labels = labels / labels.sum(dim=1, keepdim=True)
    slow = literal(layer, x, labels, kernel=3, padding=padding, unpooled=unpooled)
    torch.testing.assert_close(layer(x, kernels_of(layer, labels)), slow, atol=1e-12, rtol=0)
    of_each = [layer(x, kernels_of(layer, torch.eye(CLASSES).double()[[k] * 8])) for k in range(CLASSES)]
    mixture = sum(labels[:, k, None, None, None] * out for k, out in enumerate(of_each))
    torch.testing.assert_close(slow, mixture, atol=1e-12, rtol=0)  # linear in the labels


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("kernel", [3, 5, 9])
def test_convolution_of_a_single_channel_by_patches(kernel, padding):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(4, 1, 11, 12), torch.randn(6, 1, kernel, kernel), torch.randn(6)
    fast = single_channel_conv(x, weight, bias, padding=padding)
    torch.testing.assert_close(fast, conv2d(x, weight, bias, padding=padding), atol=1e-4, rtol=1e-5)
    assert fast.is_contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        assert single_channel_conv(x, weight, bias, padding=padding).dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(200, 40), (200, 4, 5, 2)])
def test_dropout_keeps_the_mean_and_scales_what_is_left(shape):
    torch.manual_seed(0)
    x = torch.full(shape, 2.0)
    dropped = drop_out(x, 0.25)
    assert dropped.unique().tolist() == pytest.approx([0.0, 2 / 0.75])
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert dropped.shape == x.shape
    assert drop_out(x, 0.0) is x
    assert drop_out(x.bfloat16(), 0.25).dtype == torch.bfloat16


def test_dropout_draws_the_same_for_every_layout():
    x = torch.rand(3, 4, 5, 6)
    results = []
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        results.append(drop_out(x.contiguous(memory_format=layout), 0.5))
    assert torch.equal(*results)


def test_the_gradient_goes_through_what_dropout_left():
    torch.manual_seed(0)
    x = torch.rand(50, 6, requires_grad=True)
    dropped = drop_out(x, 0.5)
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    torch.testing.assert_close(gradient, (dropped != 0) * 2.0)


def test_glorot_bounds_count_the_label_maps():
    torch.manual_seed(0)
    layer = Conv(6, 20, 3, size=(8, 8), n_classes=10)
    bound = (6 / ((6 + 10) * 9 + 20 * 9)) ** 0.5
    for weight in (layer.conv.weight, layer.label_maps.weight):
        assert 0.98 * bound < weight.abs().max() <= bound
    assert not layer.conv.bias.any()
    linear = dense(100, 50)
    assert linear.weight.abs().max() <= (6 / 150) ** 0.5
    assert not linear.bias.any()


def test_batch_normalisation_in_one_process_is_torch_s_own():
    torch.manual_seed(0)
    ours, theirs = BatchNorm(3), torch.nn.BatchNorm2d(3)
    x = 5 * torch.randn(6, 3, 4, 4) + 2
    for _ in range(2):
        torch.testing.assert_close(ours(x), theirs(x), atol=0, rtol=0)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), atol=0, rtol=0)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x), atol=0, rtol=0)
