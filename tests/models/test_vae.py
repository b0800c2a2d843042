"""The bound against closed forms, exact oracles and quadrature."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, MultivariateNormal, Normal, kl_divergence

from mmdgm.data.batches import Batch
from mmdgm.models import VAE, ConditionalVAE, VAESettings
from mmdgm.networks.base import Encoder, Encoding
from mmdgm.networks.mlp import MLPDecoder, MLPEncoder

SHAPE = (1, 8, 8)


def small_batch(labeled=6, unlabeled=5):
    torch.manual_seed(1)
    return Batch(torch.rand(labeled + unlabeled, *SHAPE), torch.arange(labeled) % 3)


def mlp_vae(z=4, samples=1):
    torch.manual_seed(0)
    return VAE(MLPEncoder(SHAPE, (12, 10), z), MLPDecoder(z, (10, 12), SHAPE), VAESettings(samples=samples))


class LinearGaussianVAE(VAE):
    """x = W z + b + noise: the one VAE whose likelihood is known. It swaps the likelihood by overriding decode."""

    def decode(self, z, labels=None):
        return Normal(self.decoder(z), self.decoder.noise)


class LinearDecoder(nn.Module):
    def __init__(self, w, b, noise):
        super().__init__()
        self.w, self.b, self.noise = w, b, noise

    def forward(self, z, labels=None):
        return (z @ self.w.T + self.b).reshape(-1, 1, 1, len(self.b))


class GivenPosterior(Encoder):
    """q(z|x) = N(A(x − b), diag(variance))."""

    def __init__(self, a, b, variance):
        super().__init__()
        self.a, self.b, self.variance = a, b, variance

    def forward(self, x, labels=None, *, dropout=0.0):
        mean = (x.flatten(1) - self.b) @ self.a.T
        return Encoding(mean, self.variance.log().expand_as(mean), ())


@pytest.fixture(name="linear_gaussian")
def make_linear_gaussian():
    """Orthogonal columns, so that the true posterior is diagonal: variance 1/(1 + ‖w‖²/s²), mean v·wᵀ(x−b)/s²."""
    torch.manual_seed(0)
    noise = 0.7
    q, _ = torch.linalg.qr(torch.randn(6, 2, dtype=torch.float64))
    w, b = q * torch.tensor([2.0, 0.5], dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    variance = 1 / (1 + w.square().sum(0) / noise**2)
    exact = MultivariateNormal(b, w @ w.T + noise**2 * torch.eye(6, dtype=torch.float64))
    x = exact.sample((30,))
    posterior = GivenPosterior((w * variance).T / noise**2, b, variance)
    return LinearGaussianVAE(posterior, LinearDecoder(w, b, noise)), x, exact.log_prob(x)


def test_bound_meets_the_exact_log_likelihood_at_the_true_posterior(linear_gaussian):
    model, x, log_likelihood = linear_gaussian
    images = x.reshape(-1, 1, 1, 6)
    # E_q log p(x|z) is a mean over draws: with the analytic KL only its noise is left
    model.settings = VAESettings(samples=20_000)
    torch.testing.assert_close(model.elbo(images), log_likelihood, atol=0.05, rtol=0)


@pytest.mark.parametrize(("shift", "widen"), [(0.5, 1.0), (0.0, 3.0), (-0.3, 0.2)])
def test_bound_falls_short_by_the_kl_to_the_true_posterior(linear_gaussian, shift, widen):
    model, x, log_likelihood = linear_gaussian
    images = x.reshape(-1, 1, 1, 6)
    true_qz = model.encoder(images).qz
    off = model.encoder
    off.b = off.b - shift
    off.variance = off.variance * widen
    gap = kl_divergence(off(images).qz, true_qz).sum(1)
    assert gap.min() > 0.05
    model.settings = VAESettings(samples=20_000)
    torch.testing.assert_close(model.elbo(images), log_likelihood - gap, atol=0.15, rtol=0.02)


def test_importance_weighting_is_exact_at_the_true_posterior(linear_gaussian):
    model, x, log_likelihood = linear_gaussian
    images = x.reshape(-1, 1, 1, 6)
    for draws in (1, 7):  # every weight p(x, z) / q(z|x) is p(x)
        torch.testing.assert_close(model.log_likelihood(images, draws=draws), log_likelihood)


def test_importance_weighting_closes_the_gap_of_another_posterior(linear_gaussian):
    model, x, log_likelihood = linear_gaussian
    images = x.reshape(-1, 1, 1, 6)
    model.encoder.variance = model.encoder.variance * 2
    estimates = [model.log_likelihood(images, draws=draws).mean() for draws in (1, 10, 3000)]
    exact = log_likelihood.mean()
    assert estimates[0] < estimates[1] - 0.01
    assert estimates[1] < exact
    torch.testing.assert_close(estimates[2], exact, atol=0.01, rtol=0)


def test_importance_weighted_conditional_model_sums_over_classes():
    """Labels select one of two linear-Gaussian models, whose mixture has a known density."""

    class Mixture(ConditionalVAE):
        def decode(self, z, labels=None):
            shift = labels @ torch.tensor([[0.0] * 6, [3.0] * 6], dtype=torch.float64)
            return Normal(self.decoder(z) + shift.reshape(-1, 1, 1, 6), self.decoder.noise)

    class Posterior(GivenPosterior):
        def forward(self, x, labels=None, *, dropout=0.0):
            return super().forward(x - 3 * labels[:, 1].reshape(-1, 1, 1, 1))

    torch.manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(6, 2, dtype=torch.float64))
    b, noise = torch.randn(6, dtype=torch.float64), 0.7
    variance = 1 / (1 + q.square().sum(0) / noise**2)
    posterior = Posterior((q * variance).T / noise**2, b, variance)
    model = Mixture(nn.Module(), posterior, LinearDecoder(q, b, noise), n_classes=2)
    cov = q @ q.T + noise**2 * torch.eye(6, dtype=torch.float64)
    parts = [MultivariateNormal(b + shift, cov) for shift in (0.0, 3.0)]
    x = torch.cat([part.sample((5,)) for part in parts])
    exact = torch.stack([part.log_prob(x) for part in parts]).logsumexp(0) - math.log(2)
    torch.testing.assert_close(model.log_likelihood(x.reshape(-1, 1, 1, 6), draws=2), exact)


def test_bernoulli_bound_never_exceeds_the_likelihood_by_quadrature():
    """One latent number, so log p(x) = log ∫ p(x|z) N(z) dz can be integrated on a grid."""
    model = mlp_vae(z=1, samples=4000)
    for parameter in model.decoder.parameters():
        parameter.data *= 3
    x = torch.bernoulli(torch.full((8, *SHAPE), 0.5))
    z = torch.linspace(-8, 8, 4001)
    with torch.no_grad():
        log_px = torch.stack([model.decode(z[:, None]).log_prob(row).flatten(1).sum(1) for row in x])
    log_likelihood = torch.logsumexp(log_px + Normal(0, 1).log_prob(z) + math.log(z[1] - z[0]), dim=1)
    assert (model.elbo(x) < log_likelihood + 0.01).all()


def test_kl_is_the_closed_form():
    model, batch = mlp_vae(), small_batch()
    encoding = model.encoder(batch.x)
    closed = 0.5 * (encoding.log_variance.exp() + encoding.mean.square() - 1 - encoding.log_variance).sum(1)
    torch.testing.assert_close(model.bound(batch.x, encoding).kl, closed)


def test_more_samples_average_the_likelihood_of_single_draws():
    batch, model = small_batch(), mlp_vae(samples=3)
    encoding = model.encoder(batch.x)
    torch.manual_seed(5)
    bound = model.bound(batch.x, encoding)
    torch.manual_seed(5)
    draws = encoding.qz.rsample((3,))
    literal = torch.stack([model.decode(z).log_prob(batch.x).sum(dim=(1, 2, 3)) for z in draws]).mean(0)
    torch.testing.assert_close(bound.log_likelihood, literal)


def test_rows_without_image_shape_have_a_bound_each():
    flat, images = mlp_vae(), small_batch().x
    torch.manual_seed(0)
    expected = flat.bound(images, flat.encoder(images))
    decode = flat.decode
    flat.decode = lambda z, labels=None: Bernoulli(logits=decode(z).logits.flatten(1), validate_args=False)
    torch.manual_seed(0)
    bound = flat.bound(images.flatten(1), flat.encoder(images.flatten(1)))
    torch.testing.assert_close(bound, expected)


def test_kl_is_that_of_torch_and_stays_finite_where_that_underflows():
    torch.manual_seed(0)
    mean, log_variance = torch.randn(5, 3), torch.randn(5, 3) * 4
    encoding = Encoding(mean, log_variance, ())
    standard = Normal(torch.zeros(5, 3), torch.ones(5, 3))
    torch.testing.assert_close(encoding.kl, kl_divergence(encoding.qz, standard).sum(1))
    tiny = torch.full((1, 1), -200.0, requires_grad=True)
    kl = Encoding(torch.zeros(1, 1), tiny, ()).kl
    kl.sum().backward()
    assert kl.item() == pytest.approx(0.5 * (200 - 1))
    assert tiny.grad.item() == pytest.approx(-0.5)


def test_the_bound_of_observed_values_is_that_of_a_model_of_them():
    torch.manual_seed(0)
    model = VAE(MLPEncoder((4, 1, 1), (5,), z=2), MLPDecoder(2, (5,), (4, 1, 1)))
    x = torch.rand(3, 4, 1, 1)
    observed = torch.tensor([[1.0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0]])[:, :, None, None]
    noise = torch.randn(1, 3, 2)
    encoding = model.encoder(x)
    found = model.bound(x, encoding, observed=observed, noise=noise)
    z = encoding.qz.loc + encoding.qz.scale * noise[0]
    each = Bernoulli(logits=model.decoder(z), validate_args=False).log_prob(x)
    for row in range(3):
        seen = observed[row].bool()
        torch.testing.assert_close(found.log_likelihood[row], each[row][seen].sum())
    changed = torch.where(observed.bool(), x, torch.rand_like(x))
    torch.testing.assert_close(model.bound(changed, encoding, observed=observed, noise=noise), found)


def test_the_loss_is_the_mean_bound_of_all_rows_labeled_or_not():
    model, batch = mlp_vae(), small_batch()
    torch.manual_seed(2)
    terms = model(batch)
    torch.manual_seed(2)
    torch.testing.assert_close(terms.elbo, model.elbo(batch.x))
    torch.testing.assert_close(terms.loss, -terms.elbo.mean())
    assert terms.elbo.shape == (11,)


def test_networks_see_what_is_shown_and_the_likelihood_counts_what_is_there():
    model, batch = mlp_vae(), small_batch()
    shown = batch.x * (torch.rand_like(batch.x) < 0.5)
    torch.manual_seed(2)
    terms = model(batch._replace(shown=shown))
    torch.manual_seed(2)
    torch.testing.assert_close(terms.elbo, model.bound(batch.x, model.encoder(shown)).elbo)


@pytest.mark.parametrize(("kl", "said"), [(0.001, "code"), (3.0, None)])
def test_a_code_that_carries_nothing_is_recognised(kl, said):
    reason = mlp_vae().trivial_solution({"kl": kl}, VAESettings())
    assert reason is None if said is None else said in reason
