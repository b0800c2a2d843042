"""The VAEs of other libraries: the same model as ours, and they learn."""

import math
import sys
from importlib.util import find_spec

import pytest
import torch

from benchmarks.speed.peers import PEERS, available
from mmdgm.models.vae import VAEConfig

every_peer = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed"))
        for name in PEERS
    ],
)


@pytest.fixture(autouse=True)
def address(monkeypatch):
    """Pythae sets these variables for good; other tests are not to see them."""
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "12345")


def test_available_names_what_is_installed_and_imports_nothing(monkeypatch):
    installed = [name for name in PEERS if find_spec(name)]
    for name in PEERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert available() == installed
    assert not set(PEERS) & set(sys.modules)


@every_peer
def test_an_epoch_processes_every_row(name):
    peer = PEERS[name](torch.rand(64, 784), batch=24, device="cpu")
    assert peer.epoch() == 64


@every_peer
def test_untrained_it_has_the_bound_of_our_vae(name):
    x = torch.rand(1000, 784)
    torch.manual_seed(0)
    ours = VAEConfig().build((1, 28, 28), n_classes=10, n_rows=1000)
    torch.manual_seed(0)
    peer = PEERS[name](x, batch=300, device="cpu")
    assert peer.bound(x) == pytest.approx(ours.elbo(x.reshape(-1, 1, 28, 28)).mean().item(), rel=0.005)


@every_peer
def test_the_bound_rises_towards_the_likelihood(name):
    torch.manual_seed(0)
    x = torch.rand(4, 784).round().repeat(64, 1)
    peer = PEERS[name](x, batch=32, device="cpu")
    untrained = peer.bound(x)
    for _ in range(12):
        peer.epoch()
    # no model gives four equally frequent patterns more than a quarter each
    assert untrained < -500 < -50 < peer.bound(x) < -math.log(4)
