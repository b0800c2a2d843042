"""Leading directions: the singular vectors of a linear decoder, in order."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mmdgm.inference.directions import leading_directions


class Linear(torch.nn.Module):
    """A stand-in model: its decoder's mean is tanh(z A) / 10 + even terms, which have no direction."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.tensor(matrix, dtype=torch.float32))
        self.encoder, self.n_classes = SimpleNamespace(z=len(matrix)), 3

    def generate(self, z):
        return (torch.tanh(z @ self.matrix / 10) + z.square() @ self.matrix)[:, :, None, None]


def test_directions_are_the_singular_vectors_of_the_mean_jacobian():
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (5, 20))
    model = Linear(left @ np.diag([9.0, 3.0, 1.0, 0.3, 0.0]) @ right[:5])
    found = leading_directions(model, 3)
    assert found.shape == (3, 5)
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-6)
    assert (np.abs((found * left[:, :3].T).sum(axis=1)) > 0.97).all()
    assert (found[np.arange(3), np.abs(found).argmax(axis=1)] > 0).all()
    np.testing.assert_array_equal(found, leading_directions(model, 3))
    assert len(leading_directions(model, 9)) == 5


@pytest.mark.parametrize("seed", [0, 1])
def test_the_random_state_of_the_caller_is_kept(seed):
    torch.manual_seed(seed)
    expected = torch.rand(3)
    torch.manual_seed(seed)
    leading_directions(Linear(np.eye(2)), 1)
    assert torch.equal(torch.rand(3), expected)
