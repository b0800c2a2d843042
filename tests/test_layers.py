"""The fast layers against the literal forms that they stand for, values and gradients."""

import pytest
import torch
from torch.nn.functional import conv2d, one_hot

from mmdgm.layers import Conv, dense, padding_width

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


@pytest.mark.parametrize("conditioned", [True, False])
@pytest.mark.parametrize("unpooled", [True, False])
@pytest.mark.parametrize("padding", ["valid", "same", "full"])
@pytest.mark.parametrize("kernel", [3, 5])
def test_fast_convolution_is_the_literal_one(kernel, padding, unpooled, conditioned):
    torch.manual_seed(0)
    layer = Conv(
        3, 5, kernel, size=(6, 7), padding=padding, unpool=unpooled, n_classes=CLASSES if conditioned else 0
    )
    torch.nn.init.normal_(layer.conv.bias)
    x = torch.randn(8, 3, 6, 7, requires_grad=True)
    labels = one_hot(torch.arange(8) % CLASSES, CLASSES).float().requires_grad_()
    fast = layer(x, labels)
    slow = literal(layer, x, labels, kernel=kernel, padding=padding, unpooled=unpooled)
    assert fast.shape[2:] == layer.out_size
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)

    # gradients in double precision, where rounding leaves no room for a wrong one
    layer.double()
    x, labels = (t.detach().double().requires_grad_() for t in (x, labels))
    fast = layer(x, labels)
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
    assert maps(torch.eye(2)).shape == (2, 8, 1, 1)


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
