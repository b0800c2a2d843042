"""M2's objective against literal sums over classes."""

import copy
import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from mmdgm.data.augmentation import Distortion
from mmdgm.data.batches import Batch
from mmdgm.models import MarginalConditionalSettings, MarginalConditionalVAE, MarginalConditionalVAEConfig
from mmdgm.networks.architectures import conditional_conv_networks, conv_classifier
from mmdgm.networks.base import Encoder, Encoding

SHAPE = (1, 8, 8)


def small_batch(labeled=6, unlabeled=5):
    torch.manual_seed(1)
    return Batch(torch.rand(labeled + unlabeled, *SHAPE), torch.arange(labeled) % 3)


def networks():
    torch.manual_seed(0)
    classifier = conv_classifier(SHAPE, n_classes=3, narrow=False)
    return classifier, *conditional_conv_networks(SHAPE, z=4, n_classes=3)


def m2(**settings):
    return MarginalConditionalVAE(*networks(), MarginalConditionalSettings(**settings), n_classes=3)


class FixedScores(nn.Module):
    """A classifier whose scores are parameters, one row per row of the batch."""

    def __init__(self, rows):
        super().__init__()
        torch.manual_seed(4)
        self.scores = nn.Parameter(torch.randn(rows, 3))

    def forward(self, x, *, dropout=0.0):
        return self.scores


class Certain(Encoder):
    """Another encoder's mean as a code without noise: what is drawn does not depend on the order of rows."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.z, self.hidden_widths = encoder, encoder.z, encoder.hidden_widths

    def forward(self, x, labels=None, *, dropout=0.0):
        mean = self.encoder(x, labels).mean
        return Encoding(mean, torch.full_like(mean, -60.0), ())


def literal_model(batch, **settings):
    """A model with given scores and no noise."""
    model = m2(**settings)
    model.classifier, model.encoder = FixedScores(len(batch.x)), Certain(model.encoder)
    return model


def objective(model, batch, **more):
    torch.manual_seed(2)
    return model(batch, **more)


def gradients(model, batch, **more):
    model.zero_grad()
    objective(model, batch, **more).loss.backward()
    return {name: p.grad for name, p in model.named_parameters()}


def literal_cost(model, x, k, seen, shown):
    """L(x, k) of one image: −Σ over observed pixels of log p(x|z, k), the KL, log K."""
    labels = one_hot(torch.tensor([k]), 3).float()
    encoding = model.encoder(shown[None], labels)
    pixels = model.decode(encoding.mean, labels).log_prob(x[None])[0]
    return -pixels[seen].sum() + encoding.kl[0] + math.log(3)


def literal_loss(model, batch, alpha):
    scores, n = model.classifier.scores, len(batch.y)
    observed = torch.ones_like(batch.x) if batch.observed is None else batch.observed
    costs = []
    for i, x in enumerate(batch.x):
        of_classes = [literal_cost(model, x, k, observed[i].bool(), batch.seen()[i]) for k in range(3)]
        if i < n:
            costs.append(of_classes[batch.y[i]])
        else:
            q = scores[i].softmax(0)
            costs.append(sum(q[k] * (of_classes[k] + q[k].log()) for k in range(3)))
    loss = torch.stack(costs).mean()
    return loss + alpha * cross_entropy(scores[:n], batch.y) if n else loss


@pytest.mark.parametrize(("labeled", "unlabeled"), [(6, 5), (6, 0), (0, 5)])
@pytest.mark.parametrize("with_holes", [False, True])
def test_the_loss_is_the_literal_sum_over_rows_and_classes(labeled, unlabeled, with_holes):
    batch = small_batch(labeled, unlabeled)
    if with_holes:
        batch = batch._replace(observed=(torch.rand_like(batch.x) < 0.6).float())
    model = literal_model(batch, alpha=0.4)
    terms = objective(model, batch)
    torch.testing.assert_close(terms.loss, literal_loss(model, batch, 0.4), rtol=1e-4, atol=1e-4)
    assert terms.elbo.shape == (labeled + unlabeled,)
    ours = gradients(model, batch)
    model.zero_grad()
    literal_loss(model, batch, 0.4).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-3, atol=1e-4, msg=name)


def test_values_that_are_not_observed_have_no_influence_on_loss_and_gradient():
    batch = small_batch()
    observed = (torch.rand_like(batch.x) < 0.6).float()
    other = torch.where(observed.bool(), batch.x, torch.rand_like(batch.x))
    shown = batch.x * observed  # what networks see: nothing of the rest
    one, two = (Batch(x, batch.y, observed, shown) for x in (batch.x, other))
    torch.testing.assert_close(objective(m2(), one), objective(m2(), two), rtol=0, atol=0)
    torch.testing.assert_close(gradients(m2(), one), gradients(m2(), two), rtol=0, atol=0)
    seen = torch.where(observed.bool(), other, batch.x + 0.1)
    changed = objective(m2(), Batch(seen, batch.y, 1 - observed, shown)).loss
    assert not torch.isclose(changed, objective(m2(), one._replace(observed=1 - observed)).loss)


def test_the_encoder_sees_what_is_shown():
    batch = small_batch()
    batch = batch._replace(shown=batch.x * (torch.rand_like(batch.x) < 0.5))
    model = literal_model(batch, alpha=0.4)
    torch.testing.assert_close(objective(model, batch).loss, literal_loss(model, batch, 0.4), rtol=1e-4, atol=1e-4)
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    objective(model, batch)
    assert torch.equal(seen[0], batch.shown[:6])
    assert torch.equal(seen[1], batch.shown[6:].repeat_interleave(3, dim=0))


@pytest.mark.parametrize("alpha", [0.1, 0.0])
def test_a_batch_without_labels_trains(alpha):
    batch = small_batch(labeled=0)
    terms = objective(m2(alpha=alpha), batch)
    assert terms.cross_entropy.tolist() == [0]
    torch.testing.assert_close(terms.loss, -terms.elbo.mean())
    found = gradients(m2(alpha=alpha), batch)
    assert all(value is not None and value.isfinite().all() for value in found.values())
    assert found["classifier.last.weight"].any()


def test_all_rows_labeled():
    batch = small_batch(unlabeled=0)
    terms = objective(m2(), batch)
    assert terms.top_class_share.item() == 0
    torch.testing.assert_close(terms.loss, 0.1 * terms.cross_entropy.mean() - terms.elbo.mean())


def test_settings_of_a_stage_win_over_the_model_s_which_stay():
    model, batch = m2(), small_batch()
    own = model.settings
    stage = dataclasses.replace(own, alpha=3.0, dropout=0.0)
    found, expected = gradients(model, batch, settings=stage), gradients(m2(alpha=3.0, dropout=0.0), batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert model.settings is own
    assert own == MarginalConditionalSettings()


def test_an_averaged_classifier_answers_and_follows():
    model = m2(averaging=0.6).train()
    model.average.steps.fill_(1e6)
    before = copy.deepcopy(model.average.classifier.state_dict())
    with torch.no_grad():
        for value in model.classifier.parameters():
            value.add_(0.1)
    source = copy.deepcopy(model.classifier.state_dict())
    objective(model, small_batch()).loss.backward()
    for name, value in model.average.classifier.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value, 0.6 * before[name] + 0.4 * source[name])
    assert all(p.grad is None for p in model.average.parameters())
    x = small_batch().x
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model.scores(x), model.average.classifier(x))
        assert not torch.allclose(model.scores(x), model.classifier(x))


def test_the_classifier_sees_distorted_images_and_the_generative_model_the_images():
    model, batch = m2(distortion=Distortion(turn=20.0)).train(), small_batch()
    of_classifier, of_encoder = [], []
    model.classifier.register_forward_pre_hook(lambda _, args: of_classifier.append(args[0]))
    model.encoder.register_forward_pre_hook(lambda _, args: of_encoder.append(args[0]))
    objective(model, batch)
    assert of_classifier[0].shape == batch.x.shape
    assert not torch.equal(of_classifier[0], batch.x)
    assert torch.equal(of_encoder[0], batch.x[:6])


def test_marginal_bound_is_the_best_mixture_of_the_bounds_of_classes():
    """−U = Σ q (ELBO − log q) ≤ log Σ_k exp ELBO(x, k), and equals it where q is their softmax."""
    model = m2().eval()
    x = small_batch().x

    def negative_elbos():
        with torch.no_grad():
            torch.manual_seed(5)
            return torch.stack([model.negative_elbo(x, torch.full((len(x),), k)) for k in range(3)], dim=1)

    best = (-negative_elbos()).logsumexp(dim=1)
    torch.manual_seed(5)
    assert (model.elbo(x) < best).all()
    model.classifier = FixedScores(len(x))
    model.classifier.scores.data = -negative_elbos()
    torch.manual_seed(5)
    torch.testing.assert_close(model.elbo(x), best)


def test_the_config_is_the_settings_and_builds_the_networks():
    config = MarginalConditionalVAEConfig(z=4, alpha=0.7)
    torch.manual_seed(0)
    model = config.build(SHAPE, n_classes=3, n_rows=6)
    assert model.settings is config
    torch.testing.assert_close(objective(model, small_batch()), objective(m2(alpha=0.7), small_batch()))


@pytest.mark.parametrize(("share", "said"), [(1.0, "one class"), (0.4, None)])
def test_one_class_for_all_rows_is_recognised(share, said):
    reason = m2().trivial_solution({"top_class_share": share}, MarginalConditionalSettings())
    assert reason is None if said is None else said in reason
