"""MMVA's objective against the sums of its terms, the VAE that it contains, and numerical gradients."""

import copy
import dataclasses
import pickle

import pytest
import torch

from mmdgm.data.augmentation import Distortion
from mmdgm.data.batches import Batch
from mmdgm.models import VAE, ClassWeights, MaxMarginVAE, MaxMarginVAEConfig, MaxMarginVAESettings, losses
from mmdgm.networks.architectures import conv_networks
from mmdgm.networks.mlp import MLPDecoder, MLPEncoder

SHAPE = (1, 8, 8)


def small_batch(labeled=6, unlabeled=5):
    torch.manual_seed(1)
    return Batch(torch.rand(labeled + unlabeled, *SHAPE), torch.arange(labeled) % 3)


def networks():
    torch.manual_seed(0)
    return MLPEncoder(SHAPE, (12, 10), 4), MLPDecoder(4, (10, 12), SHAPE)


def mmva(*, weights=ClassWeights(), **changes):
    settings = MaxMarginVAESettings(**{"features": "hidden", "C": 15.0, "margin": 3.0} | changes)
    return MaxMarginVAE(*networks(), settings, n_classes=3, n_rows=50, weights=weights)


def objective(model, batch, **more):
    torch.manual_seed(2)
    return model(batch, **more)


def gradients(model, batch, **more):
    model.zero_grad()
    objective(model, batch, **more).loss.backward()
    return {name: p.grad for name, p in model.named_parameters()}


def test_loss_is_bound_hinge_and_penalty():
    model, batch = mmva(prior_variance=2.0), small_batch()
    terms = objective(model, batch)
    scores = model.scores(batch.x[:6])
    torch.testing.assert_close(terms.hinge, losses.hinge(scores, batch.y, margin=3.0))
    penalty = model.classifier.weight.square().sum() / (2 * 2.0 * 50)
    torch.testing.assert_close(terms.penalty, penalty)
    assert terms.elbo.shape == (11,)
    torch.testing.assert_close(terms.loss, -terms.elbo.mean() + 15.0 * terms.hinge.mean() + penalty)


def test_with_c_0_is_the_vae():
    batch = small_batch()
    margin_model, vae = mmva(C=0.0), VAE(*networks())
    vae.load_state_dict({k: v for k, v in margin_model.state_dict().items() if "classifier" not in k})
    torch.testing.assert_close(objective(margin_model, batch).loss, objective(vae, batch).loss, rtol=0, atol=0)
    ours = gradients(margin_model, batch)
    for name, expected in gradients(vae, batch).items():
        torch.testing.assert_close(ours[name], expected, rtol=0, atol=0)
    assert ours["classifier.weight"] is None


def test_without_the_bound_is_a_plain_classifier():
    model, batch = mmva(generative_weight=0.0), small_batch()
    terms = objective(model, batch)
    torch.testing.assert_close(terms.loss, 15 * terms.hinge.mean() + terms.penalty)
    assert (terms.elbo.item(), terms.kl.item(), model.generates) == (0.0, 0.0, False)
    found = gradients(model, batch)
    assert all(g is None or not g.any() for name, g in found.items() if name.startswith("decoder"))
    assert found["encoder.stack.layers.0.weight"].any()
    assert model.trivial_solution({"hinge": 1.0, "kl": 0.0}, model.settings) is None


def test_embedded_features_are_what_the_classifier_sees():
    model, batch = mmva(), small_batch()
    with torch.no_grad():
        scores = model.classifier(model.embed(batch.x))
    torch.testing.assert_close(scores, model.scores(batch.x))


def test_uses_unlabeled_rows_in_the_bound_alone():
    batch, model = small_batch(), mmva()
    without = batch._replace(x=batch.x[:6])
    assert torch.equal(objective(model, batch).hinge, objective(model, without).hinge)
    weight = gradients(model, batch)["classifier.weight"]
    torch.testing.assert_close(weight, gradients(model, without)["classifier.weight"])


@pytest.mark.parametrize(("features", "width"), [("hidden", 22), ("last", 10), ("mean", 4)])
def test_features_of_the_classifier(features, width):
    model, batch = mmva(features=features), small_batch()
    encoding = model.encoder(batch.x)
    expected = {
        "hidden": torch.cat(encoding.hidden, dim=1),
        "last": encoding.hidden[-1],
        "mean": encoding.mean,
    }[features]
    assert expected.shape == (11, width)
    torch.testing.assert_close(model.scores(batch.x), model.classifier(expected))


def test_gradient_is_the_numerical_one():
    model, batch = mmva().double(), small_batch()
    batch = batch._replace(x=batch.x.double())
    ours = gradients(model, batch)
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        direction = torch.randn_like(parameter)
        expected, step = [], 1e-6
        for sign in (1, -1):
            parameter.data += sign * step * direction
            expected.append(objective(model, batch).loss.item())
            parameter.data -= sign * step * direction
        numerical = (expected[0] - expected[1]) / (2 * step)
        assert (ours[name] * direction).sum().item() == pytest.approx(numerical, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("C", [15.0, 0.0])
def test_a_batch_without_labels_trains_on_the_bound(C):
    model, batch = mmva(C=C), small_batch(labeled=0)
    terms = objective(model, batch)
    assert terms.hinge.tolist() == [0]
    penalty = model.classifier.weight.square().sum() / (2 * 50) if C else 0
    torch.testing.assert_close(terms.loss, penalty - terms.elbo.mean())
    found = gradients(model, batch)
    if C:  # the prior alone
        torch.testing.assert_close(found["classifier.weight"], model.classifier.weight.detach() / 50)
    else:
        assert found["classifier.weight"] is None
    of_vae = gradients(VAE(model.encoder, model.decoder), batch)
    for name, expected in of_vae.items():
        assert expected.any()
        torch.testing.assert_close(found[name], expected)


def test_settings_of_a_stage_win_over_the_model_s_which_stay():
    model, batch = mmva(), small_batch()
    own = model.settings
    stage = dataclasses.replace(own, C=0.0, margin=1.0, prior_variance=0.5)
    terms = objective(model, batch, settings=stage)
    torch.testing.assert_close(terms.loss, -terms.elbo.mean())
    torch.testing.assert_close(terms.hinge, losses.hinge(model.scores(batch.x[:6]), batch.y, margin=1.0))
    torch.testing.assert_close(terms.penalty, model.classifier.weight.square().sum() / 50)
    assert model.settings is own
    assert own == mmva().settings
    as_built = objective(mmva(C=0.0, margin=1.0, prior_variance=0.5), batch)
    torch.testing.assert_close(terms, as_built, rtol=0, atol=0)


def test_dropout_is_the_stage_s_in_training_and_none_otherwise():
    torch.manual_seed(0)
    model = MaxMarginVAE(*conv_networks(SHAPE, z=4), MaxMarginVAESettings(dropout=0.4), n_classes=3, n_rows=6)
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, args, more: seen.append(more["dropout"]), with_kwargs=True)
    batch = small_batch()
    model.train()(batch)
    model(batch, settings=dataclasses.replace(model.settings, dropout=0.2))
    model.eval()(batch)
    assert seen == [0.4, 0.2, 0.0]


def test_class_weights_are_factors_of_the_hinge_loss():
    factors = torch.tensor([0.5, 1.0, 2.0])
    batch = small_batch()
    plain, weighted = objective(mmva(), batch), objective(mmva(weights=ClassWeights(hinge=factors)), batch)
    torch.testing.assert_close(weighted.hinge, plain.hinge * factors[batch.y])
    torch.testing.assert_close(weighted.loss, plain.loss + 15 * (weighted.hinge - plain.hinge).mean())


def test_costs_are_those_of_the_hinge_loss():
    cost = torch.tensor([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])
    model, batch = mmva(weights=ClassWeights(cost=cost)), small_batch()
    terms = objective(model, batch)
    expected = losses.hinge(model.scores(batch.x[:6]), batch.y, margin=3.0, cost=cost)
    torch.testing.assert_close(terms.hinge, expected)
    torch.testing.assert_close(terms.loss, -terms.elbo.mean() + 15.0 * expected.mean() + terms.penalty)
    assert set(model.state_dict()) == set(mmva().state_dict())
    # scores that are all alike have no one hinge loss here
    assert model.trivial_solution({"kl": 3.0, "hinge": 3.0}, model.settings) is None


def test_class_weights_move_and_are_copied_with_the_model_but_not_saved():
    factors = torch.tensor([0.5, 1.0, 2.0])
    model = mmva(weights=ClassWeights(hinge=factors))
    assert model.class_weight.dtype == torch.float32
    assert set(model.state_dict()) == set(mmva().state_dict())
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again.class_weight, factors)
        torch.testing.assert_close(objective(again, small_batch()), objective(model, small_batch()))
    assert model.to("meta").class_weight.is_meta
    assert mmva().double().class_weight is None
    assert mmva(weights=ClassWeights(hinge=factors)).double().class_weight.dtype == torch.float64


def test_the_config_is_the_settings_and_builds_the_networks():
    config = MaxMarginVAEConfig(hidden=(12, 10), z=4, features="hidden", C=15.0, margin=3.0)
    torch.manual_seed(0)
    model = config.build(SHAPE, n_classes=3, n_rows=50)
    assert model.settings is config
    torch.testing.assert_close(objective(model, small_batch()), objective(mmva(), small_batch()))


def augmented(**changes):
    model = mmva(distortion=Distortion(turn=10.0, shift=1.0), **changes)
    passed = []
    model.encoder.register_forward_hook(lambda module, args, encoding: passed.append((args[0], encoding)))
    return model, passed


def test_the_margin_sees_augmented_rows_and_the_bound_unchanged_ones():
    model, passed = augmented()
    batch = small_batch()
    terms = model.train()(batch)
    ((seen, encoding),) = passed
    assert seen.shape == (22, *SHAPE)
    assert not torch.isclose(seen[:11], batch.x).all(dim=(1, 2, 3)).any()
    assert torch.equal(seen[11:], batch.x)
    scores = model.classifier(torch.cat(encoding.rows(slice(6)).hidden, dim=1))
    torch.testing.assert_close(terms.hinge, losses.hinge(scores, batch.y, margin=3.0))
    torch.testing.assert_close(terms.kl, encoding.rows(slice(11, None)).kl)
    assert terms.elbo.shape == (11,)


@pytest.mark.parametrize(("weight", "rows"), [(1.0, 11 + 4), (0.0, 11)])
def test_the_bound_s_share_of_the_rows_and_none_without_a_bound(weight, rows):
    model, passed = augmented(bound_share=1 / 3, generative_weight=weight)
    batch = small_batch()
    terms = model.train()(batch)
    ((seen, _),) = passed
    assert torch.equal(seen[11:], batch.x[::3][: rows - 11])
    assert terms.elbo.shape == ((4,) if weight else (1,))
    assert terms.hinge.shape == (6,)


def test_without_training_nothing_is_augmented():
    model, passed = augmented(bound_share=1 / 3)
    batch = small_batch()
    terms = model.eval()(batch)
    ((seen, encoding),) = passed
    assert torch.equal(seen, batch.x)
    torch.testing.assert_close(terms.kl, encoding.rows(slice(None, None, 3)).kl)


def test_the_wide_recognition_network_pools_its_last_features_and_ignores_brightness():
    model = MaxMarginVAEConfig(network="conv", recognition="wide", z=6).build((3, 32, 32), n_classes=4, n_rows=9)
    x = torch.rand(5, 3, 32, 32)
    flat, pooled = model.eval().encoder(x).hidden
    assert (flat.shape, pooled.shape) == ((5, 256 * 16), (5, 256))
    torch.testing.assert_close(pooled, flat.reshape(5, 256, 16).mean(dim=2))
    torch.testing.assert_close(model.scores(x), model.classifier(pooled))
    torch.testing.assert_close(model.scores(0.5 * x + 0.2), model.scores(x), atol=0.02, rtol=0.1)
    assert model.generate(torch.randn(5, 6)).shape == x.shape


@pytest.mark.parametrize(
    ("settings", "metrics", "said"),
    [
        ({}, {"kl": 3.0, "hinge": 2.999}, "alike"),
        ({}, {"kl": 3.0, "hinge": 2.0}, None),
        ({}, {"kl": 0.001, "hinge": 2.0}, "code"),
        ({"C": 0.0}, {"kl": 3.0, "hinge": 3.0}, None),
        ({"generative_weight": 0.0}, {"kl": 0.0, "hinge": 2.0}, None),
    ],
)
def test_trivial_solutions_of_a_stage_are_recognised(settings, metrics, said):
    model = mmva()
    reason = model.trivial_solution(metrics, dataclasses.replace(model.settings, **settings))
    assert reason is None if said is None else said in reason
