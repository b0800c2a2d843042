"""The estimators of §3.2 against closed forms: a linear Gaussian model whose expected objective is known."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from mmdgm.data.batches import Batch
from mmdgm.errors import InputError
from mmdgm.models import MaxMarginVAE, MaxMarginVAESettings, losses
from mmdgm.networks.base import Encoder, Encoding
from mmdgm.networks.likelihoods import Likelihood
from mmdgm.networks.mlp import MLPDecoder, MLPEncoder

NOISE, MARGIN, C = 0.7, 1.5, 4.0
COPIES, RUNS = 1000, 60
WAYS = [
    {},
    {"kl": "sampled"},
    {"gradient": "score"},
    {"gradient": "score", "kl": "sampled"},
    {"gradient": "score", "baseline": True},
    {"gradient": "score", "kl": "sampled", "baseline": True},
]


class FixedNoise(Likelihood):
    def distribution(self, parameters):
        return Normal(parameters, NOISE, validate_args=False)

    def noise(self, normal):
        return normal


class LinearEncoder(Encoder):
    """q(z|x) = N(A x + a, diag exp(B x + b))."""

    hidden_widths = (1,)

    def __init__(self, size, z):
        super().__init__()
        self.mean, self.log_variance, self.z = nn.Linear(size, z), nn.Linear(size, z), z

    def forward(self, x, labels=None, *, dropout=0.0):
        return Encoding(self.mean(x.flatten(1)), self.log_variance(x.flatten(1)), ())


class LinearDecoder(nn.Linear):
    def forward(self, z, labels=None):
        return super().forward(z)[:, :, None, None]


def linear_model(classes=2, **changes):
    torch.manual_seed(0)
    settings = MaxMarginVAESettings(**{"features": "sample", "C": C, "margin": MARGIN, "samples": 2} | changes)
    networks = LinearEncoder(3, 2), LinearDecoder(2, 3)
    model = MaxMarginVAE(*networks, settings, n_classes=classes, n_rows=9, likelihood=FixedNoise()).double()
    nn.init.normal_(model.classifier.weight, std=0.7)
    return model


def rows(copies=1, classes=2):
    """Two labeled rows and an unlabeled one, each so many times; labeled ones first."""
    torch.manual_seed(5)
    x = torch.randn(3, 3, 1, 1, dtype=torch.float64).repeat_interleave(copies, dim=0)
    return Batch(x, torch.tensor([0, classes - 1]).repeat_interleave(copies))


def expected_hinge(model, encoding, y, samples):
    """E[ℓ̃] of two classes: E[max(0, N(a, t²))] = a Φ(a/t) + t φ(a/t), with t² divided by L."""
    ahead = model.classifier.weight[1 - y] - model.classifier.weight[y]
    a = MARGIN + (ahead * encoding.mean).sum(1) + model.classifier.bias[1 - y] - model.classifier.bias[y]
    t = ((ahead.square() * encoding.log_variance.exp()).sum(1) / samples).sqrt()
    return a * torch.special.ndtr(a / t) + t * (-(a / t).square() / 2).exp() / math.sqrt(2 * math.pi)


def expected_objective(model, batch, C=C):
    """The mean of the objective over all draws of z, in closed form."""
    encoding, n = model.encoder(batch.x), len(batch.y)
    fit = Normal(model.decoder(encoding.mean), NOISE).log_prob(batch.x).flatten(1).sum(1)
    spread = (encoding.log_variance.exp() @ model.decoder.weight.square().T).sum(1) / (2 * NOISE**2)
    hinge = expected_hinge(model, encoding.rows(slice(n)), batch.y, model.settings.samples)
    penalty = model.classifier.weight.square().sum() / (2 * 9)
    return -(fit - spread - encoding.kl).mean() + C * hinge.mean() + penalty


def estimates(model, copies=COPIES, runs=RUNS, classes=2):
    """Gradients of independent runs along one random direction per parameter, `(runs,)` each, and the directions."""
    torch.manual_seed(7)
    directions = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    batch, found = rows(copies, classes), {name: [] for name in directions}
    for _ in range(runs):
        gradients = torch.autograd.grad(model(batch).loss, list(model.parameters()))
        for gradient, (name, direction) in zip(gradients, directions.items(), strict=True):
            found[name].append((gradient * direction).sum())
    return {name: torch.stack(values) for name, values in found.items()}, directions


def mean_and_error(values):
    return values.mean().item(), values.std().item() / math.sqrt(len(values))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_gradient_is_that_of_the_expected_objective(way):
    model = linear_model(**way)
    found, directions = estimates(model)
    exact = torch.autograd.grad(expected_objective(model, rows()), list(model.parameters()))
    for gradient, (name, values) in zip(exact, found.items(), strict=True):
        mean, error = mean_and_error(values)
        assert abs(mean - (gradient * directions[name]).sum().item()) < 3 * error + 1e-9, name


def of_encoder(values):
    return sum(value for name, value in values.items() if name.startswith("encoder"))


def exact_along(model, directions, **changes):
    """The exact gradient of φ along the directions."""
    phi = dict(model.encoder.named_parameters())
    gradients = torch.autograd.grad(expected_objective(model, rows(), **changes), list(phi.values()))
    pairs = zip(gradients, phi, strict=True)
    return sum((gradient * directions[f"encoder.{name}"]).sum() for gradient, name in pairs).item()


@pytest.mark.parametrize("way", WAYS[2:], ids=str)
def test_the_score_function_s_margin_lowers_the_hinge_loss(way):
    """The sign of the term with C: it is that of minimising the negative bound plus C · hinge."""
    model = linear_model(**way)
    found, directions = estimates(model)
    mean, error = mean_and_error(of_encoder(found))
    assert abs(mean - exact_along(model, directions)) < 3 * error
    assert abs(mean - exact_along(model, directions, C=-C)) > 10 * error


def as_printed(model, batch):
    """Minus Eq. var-grad as a surrogate loss, with one draw: its gradient of φ, and ỹ of the same draw."""
    encoding, n = model.encoder(batch.x), len(batch.y)
    z = encoding.qz.sample()
    fit = model.log_likelihood_of_draws(batch.x, z[None])[0]
    log_q = encoding.qz.log_prob(z).sum(1)
    ratio = Normal(0.0, 1.0).log_prob(z).sum(1) - log_q
    scores, y = model.classifier(z[:n]), batch.y[:, None]
    augmented = (scores + MARGIN).scatter(1, y, scores.gather(1, y)).argmax(1, keepdim=True)
    ahead = (scores.gather(1, y) - scores.gather(1, augmented))[:, 0]  # λᵀΔf(ỹ, z)
    bound, margin = ((fit + ratio).detach() * log_q).mean(), (C * ahead.detach() * log_q[:n]).mean()
    return -bound - margin


def test_the_printed_gradient_is_biased_where_the_prediction_changes_with_the_draw():
    model = linear_model(samples=1)
    _, directions = estimates(model, copies=1, runs=1)
    batch, phi, found = rows(COPIES), dict(model.encoder.named_parameters()), []
    for _ in range(RUNS):
        gradients = torch.autograd.grad(as_printed(model, batch), list(phi.values()))
        pairs = zip(gradients, phi, strict=True)
        found.append(sum((gradient * directions[f"encoder.{name}"]).sum() for gradient, name in pairs))
    mean, error = mean_and_error(torch.stack(found))
    exact, flipped = exact_along(model, directions), exact_along(model, directions, C=-C)
    assert abs(mean - exact) > 5 * error
    assert abs(mean - exact) < abs(mean - flipped)  # but its sign is right


def test_the_two_gradients_agree_for_networks_and_four_classes():
    torch.manual_seed(0)
    networks = MLPEncoder((3, 1, 1), (5,), 2), MLPDecoder(2, (4,), (3, 1, 1))
    found, value = {}, {}
    for gradient in ("reparameterised", "score"):
        settings = MaxMarginVAESettings(
            features="sample", C=C, samples=3, gradient=gradient, baseline=gradient == "score"
        )
        model = MaxMarginVAE(*networks, settings, n_classes=4, n_rows=9, likelihood=FixedNoise()).double()
        torch.manual_seed(1)
        nn.init.normal_(model.classifier.weight)
        torch.manual_seed(2)
        value[gradient] = [term.detach() for term in model(rows(20, 4))]
        found[gradient], _ = estimates(model, classes=4)
    torch.testing.assert_close(value["score"], value["reparameterised"])  # the same draws
    assert {name.partition(".")[0] for name in found["score"]} == {"encoder", "decoder", "classifier"}
    for name, ours in found["score"].items():
        (mean, error), (other, other_error) = mean_and_error(ours), mean_and_error(found["reparameterised"][name])
        assert abs(mean - other) < 3 * math.hypot(error, other_error) + 1e-9, name


def test_the_baseline_lowers_the_variance():
    for kl in ("analytic", "sampled"):
        plain, less = (
            of_encoder(estimates(linear_model(gradient="score", kl=kl, baseline=baseline))[0]).var()
            for baseline in (False, True)
        )
        assert less < 0.5 * plain


def test_the_sampled_hinge_loss_lies_above_that_of_the_expected_scores():
    """Jensen: E[ℓ̃] ≥ ℓ, and less so with more draws. For two classes it is the closed form."""
    of_expected, above = [], {1: [], 8: []}
    for classes in (2, 4):
        batch = rows(20_000, classes)
        for samples, gaps in above.items():
            model = linear_model(classes, samples=samples)
            encoding = model.encoder(batch.x).rows(slice(len(batch.y)))
            terms = model(batch)
            sampled = terms.hinge.reshape(2, -1).detach()
            expected = losses.hinge(model.classifier(encoding.mean), batch.y, margin=MARGIN).reshape(2, -1)[:, 0]
            error = sampled.std(1) / math.sqrt(sampled.shape[1])
            assert (sampled.mean(1) >= expected - 3 * error - 1e-9).all()
            gaps.append((sampled.mean(1) - expected).max().item())
            of_expected.append((sampled.mean(1) - expected - 10 * error).max().item())
            if classes == 2:
                exact = expected_hinge(model, encoding, batch.y, samples).reshape(2, -1)[:, 0]
                assert ((sampled.mean(1) - exact).abs() < 3 * error + 1e-12).all()
    assert max(of_expected) > 0  # the gap is real
    assert all(few > many for few, many in zip(above[1], above[8], strict=True))


def test_the_sampled_kl_has_the_mean_of_the_analytic_one():
    batch = rows(20_000)
    sampled, analytic = (linear_model(kl=kl)(batch).kl.detach().reshape(3, -1) for kl in ("sampled", "analytic"))
    error = sampled.std(1) / math.sqrt(sampled.shape[1])
    assert (error > 0).all()
    assert ((sampled.mean(1) - analytic[:, 0]).abs() < 3 * error).all()


def test_the_margin_and_the_bound_share_their_draws():
    model, batch = linear_model(3, samples=4), rows(2, 3)
    seen = []
    model.decoder.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    terms = model(batch)
    z = seen[0].reshape(4, len(batch.x), 2)[:, : len(batch.y)]
    torch.testing.assert_close(terms.hinge, losses.hinge(model.classifier(z).mean(0), batch.y, margin=MARGIN))
    torch.testing.assert_close(model.scores(batch.x), model.classifier(model.encode(batch.x)))
    without = linear_model(3, samples=4, generative_weight=0.0)
    assert without(batch).hinge.shape == terms.hinge.shape


def test_a_baseline_needs_other_draws():
    with pytest.raises(InputError, match="samples"):
        MaxMarginVAESettings(gradient="score", baseline=True)
