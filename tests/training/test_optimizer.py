"""Our Adam against torch's plain one."""

import copy

import pytest
import torch
from torch import nn

from mmdgm.training.optimizer import fill, make_adam, reset


def model():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4))
    return layers.to(memory_format=torch.channels_last)


def reference(net, rate, decay, **other):
    weights, biases = ([p for p in net.parameters() if (p.ndim > 1) == big] for big in (True, False))
    groups = [{"params": weights, "weight_decay": decay}, {"params": biases, "weight_decay": 0.0}]
    kind = torch.optim.AdamW if other.pop("decoupled", False) else torch.optim.Adam
    return kind(groups, lr=rate, foreach=False, fused=False, **other)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_torch(decay, decoupled):
    ours, theirs = model(), model()
    rate = torch.tensor(0.0)
    adam = make_adam(ours, rate, weight_decay=decay, beta2=0.9, decoupled=decoupled)
    plain = reference(theirs, 1.0, decay, betas=(0.9, 0.9), decoupled=decoupled)
    for step in range(5):
        x = torch.rand(6, 2, 4, 4)
        rate.fill_(0.1 / (step + 1))
        for group in plain.param_groups:
            group["lr"] = 0.1 / (step + 1)
        for net, optimizer in ((ours, adam), (theirs, plain)):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other)


def test_parameters_without_gradient_stay():
    net = model()
    adam = make_adam(net, torch.tensor(0.1), weight_decay=0.1)
    before = copy.deepcopy(net[0].state_dict())
    net[3](torch.rand(5, 12)).sum().backward()
    adam.step()
    for name, value in net[0].state_dict().items():
        assert torch.equal(value, before[name])
    adam.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    adam.step()  # nothing to do


def test_reset_and_fill_work_in_place():
    net = model()
    parameters = dict(net.named_parameters())
    adam = make_adam(net, torch.tensor(0.1), weight_decay=0.0)
    net(torch.rand(6, 2, 4, 4)).sum().backward()
    adam.step()
    moment = adam.state[net[0].weight]["exp_avg"]
    saved = {f"{n}/{kind}": v.clone().contiguous() for n, p in parameters.items() for kind, v in adam.state[p].items()}
    assert moment.abs().sum() > 0
    reset(adam)
    assert not moment.any()
    fill(adam, parameters, saved)
    assert adam.state[net[0].weight]["exp_avg"] is moment
    assert torch.equal(moment, saved["0.weight/exp_avg"])
    assert moment.stride() == net[0].weight.stride()  # channels last, as the weight
    fresh = make_adam(net, torch.tensor(0.1), weight_decay=0.0)
    fill(fresh, parameters, saved)
    assert fresh.state[net[3].bias]["step"].item() == 1
