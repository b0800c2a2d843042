"""Objectives against closed forms, exact oracles, numerical gradients and the literal sums of their terms."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, MultivariateNormal, Normal, kl_divergence
from torch.nn.functional import one_hot, softmax

from mmdgm.data.batches import Batch
from mmdgm.models import VAE, ConditionalVAE, MarginalConditionalVAE, MaxMarginConditionalVAE, MaxMarginVAE, losses
from mmdgm.networks.architectures import conditional_conv_networks, conv_classifier
from mmdgm.networks.stacks import Encoder, Encoding, MLPDecoder, MLPEncoder

SHAPE = (1, 8, 8)


def small_batch(labeled=6, unlabeled=5, classes=3):
    torch.manual_seed(1)
    return Batch(torch.rand(labeled, *SHAPE), torch.arange(labeled) % classes, torch.rand(unlabeled, *SHAPE))


def mlp_vae(seed=0, z=4, samples=1):
    torch.manual_seed(seed)
    return VAE(MLPEncoder(SHAPE, (12, 10), z), MLPDecoder(z, (10, 12), SHAPE), samples=samples)


def mmva(seed=0, **changes):
    weights = {"n_classes": 3, "n_rows": 50, "features": "hidden", "C": 15.0, "margin": 3.0} | changes
    vae = mlp_vae(seed)
    return MaxMarginVAE(vae.encoder, vae.decoder, **weights)


def mmcva(seed=0, **weights):
    torch.manual_seed(seed)
    return MaxMarginConditionalVAE(
        conv_classifier(SHAPE, n_classes=3, dropout=0.5, narrow=False),
        *conditional_conv_networks(SHAPE, z=4, n_classes=3),
        n_classes=3,
        **weights,
    )


def objective(model, batch, seed=2):
    torch.manual_seed(seed)
    return model(batch)


def gradients(model, batch):
    model.zero_grad()
    objective(model, batch).loss.backward()
    return {name: p.grad for name, p in model.named_parameters()}


# --- the bound -------------------------------------------------------------------------------------------


class LinearGaussianVAE(VAE):
    """x = W z + b + noise: the one VAE whose likelihood is known. It swaps the likelihood by overriding decode."""

    def decode(self, z, labels=None):
        return Normal(self.decoder(z), self.decoder.noise)


class LinearDecoder(nn.Module):
    def __init__(self, w, b, noise):
        super().__init__()
        self.w, self.b, self.noise = w, b, noise

    def forward(self, z):
        return (z @ self.w.T + self.b).reshape(-1, 1, 1, len(self.b))


class GivenPosterior(Encoder):
    """q(z|x) = N(A(x − b), diag(variance))."""

    def __init__(self, a, b, variance):
        super().__init__()
        self.a, self.b, self.variance = a, b, variance

    def forward(self, x, labels=None):
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
    model.samples = 20_000
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
    model.samples = 20_000
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
        def forward(self, x, labels=None):
            return super().forward(x - 3 * labels[:, 1].reshape(-1, 1, 1, 1))

    torch.manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(6, 2, dtype=torch.float64))
    b, noise = torch.randn(6, dtype=torch.float64), 0.7
    variance = 1 / (1 + q.square().sum(0) / noise**2)
    posterior = Posterior((q * variance).T / noise**2, b, variance)
    classifier = nn.Module()
    model = Mixture(classifier, posterior, LinearDecoder(q, b, noise), n_classes=2)
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


# --- MaxMarginVAE ----------------------------------------------------------------------------------------


def test_mmva_loss_is_bound_hinge_and_penalty():
    model, batch = mmva(prior_variance=2.0), small_batch()
    terms = objective(model, batch)
    scores = model.scores(batch.x)
    torch.testing.assert_close(terms.hinge, losses.hinge(scores, batch.y, margin=3.0))
    penalty = model.classifier.weight.square().sum() / (2 * 2.0 * 50)
    torch.testing.assert_close(terms.penalty, penalty)
    assert terms.elbo.shape == (11,)
    torch.testing.assert_close(terms.loss, -terms.elbo.mean() + 15.0 * terms.hinge.mean() + penalty)


def test_mmva_with_c_0_is_the_vae():
    batch = small_batch()
    margin_model, vae = mmva(C=0.0), mlp_vae()
    vae.load_state_dict({k: v for k, v in margin_model.state_dict().items() if "classifier" not in k})
    torch.testing.assert_close(objective(margin_model, batch).loss, objective(vae, batch).loss, rtol=0, atol=0)
    ours = gradients(margin_model, batch)
    for name, expected in gradients(vae, batch).items():
        torch.testing.assert_close(ours[name], expected, rtol=0, atol=0)
    assert ours["classifier.weight"] is None


def test_mmva_without_the_bound_is_a_plain_classifier():
    model, batch = mmva(generative_weight=0.0), small_batch()
    terms = objective(model, batch)
    torch.testing.assert_close(terms.loss, 15 * terms.hinge.mean() + terms.penalty)
    assert (terms.elbo.item(), terms.kl.item(), model.generates) == (0.0, 0.0, False)
    found = gradients(model, batch)
    assert all(g is None or not g.any() for name, g in found.items() if name.startswith("decoder"))
    assert found["encoder.stack.layers.0.weight"].any()
    assert model.trivial_solution({"hinge": 1.0, "kl": 0.0}) is None


def test_embedded_features_are_what_the_classifier_sees():
    model, batch = mmva(), small_batch()
    with torch.no_grad():
        scores = model.classifier(model.embed(batch.x))
    torch.testing.assert_close(scores, model.scores(batch.x))


def test_mmva_uses_unlabeled_rows_in_the_bound_alone():
    batch, model = small_batch(), mmva()
    without = batch._replace(x_unlabeled=batch.x_unlabeled[:0])
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
    assert expected.shape == (6, width)
    torch.testing.assert_close(model.scores(batch.x), model.classifier(expected))


def test_mmva_gradient_is_the_numerical_one():
    model, batch = mmva().double(), Batch(*(t.double() if t.is_floating_point() else t for t in small_batch()[:3]))
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


# --- MaxMarginConditionalVAE -----------------------------------------------------------------------------


class FixedScores(nn.Module):
    """A classifier whose scores are parameters, one row per row of the batch."""

    def __init__(self, rows, classes):
        super().__init__()
        torch.manual_seed(4)
        self.scores = nn.Parameter(torch.randn(rows, classes))
        self.last = nn.Linear(2, classes)

    def forward(self, x):
        return self.scores


def with_fixed_scores(batch, **weights):
    model = mmcva(**weights)
    model.classifier = FixedScores(len(batch.x) + len(batch.x_unlabeled), 3)
    return model


def test_mmcva_loss_is_the_sum_of_its_terms():
    batch = small_batch()
    model = with_fixed_scores(batch, alpha=0.2, hat_weight=0.7, balance_weight=0.3, last_layer_decay=0.01)
    terms = objective(model, batch)
    scores, unlabeled = model.classifier.scores[:6], model.classifier.scores[6:]
    hinge = losses.hinge(scores, batch.y, margin=1.0).mean()
    hat = losses.hat(unlabeled, margin=1.0).mean()
    balance = losses.label_balance(scores, batch.y, unlabeled)
    decay = 0.01 * model.classifier.last.weight.square().sum()
    margin_loss = 0.2 * (hinge + 0.7 * hat + 0.3 * balance + decay)

    x, y = torch.cat([batch.x, batch.x_unlabeled]), torch.cat([batch.y, unlabeled.argmax(1)])
    labels = one_hot(y, 3).float()
    torch.manual_seed(2)
    bound = model.bound(x, model.encoder(x, labels), labels)
    elbo = bound.elbo - math.log(3)
    torch.testing.assert_close(terms.elbo, elbo)
    torch.testing.assert_close(terms.loss, margin_loss - elbo.mean())


def test_no_margin_gradient_on_unlabeled_scores_when_hat_and_balance_are_off():
    batch = small_batch()
    off = with_fixed_scores(batch, hat_weight=0.0, balance_weight=0.0)
    gradient = gradients(off, batch)["classifier.scores"]
    assert not gradient[6:].any()
    assert gradient[:6].any()
    for weights in ({"balance_weight": 0.0}, {"hat_weight": 0.0}):
        assert gradients(with_fixed_scores(batch, **weights), batch)["classifier.scores"][6:].any()


def test_each_weight_switches_its_term_off():
    batch = small_batch()
    none = with_fixed_scores(
        batch, hinge_weight=0.0, hat_weight=0.0, balance_weight=0.0, generative_weight=0.0, last_layer_decay=0.0
    )
    assert objective(none, batch).loss.item() == 0
    alone = with_fixed_scores(batch, generative_weight=0.0)
    gradient = gradients(alone, batch)
    assert gradient.pop("classifier.scores").any()
    assert all(value is None for name, value in gradient.items() if not name.startswith("classifier"))


def test_straight_through_passes_the_labels_gradient_into_the_softmax():
    batch = small_batch()
    off = {"hinge_weight": 0.0, "hat_weight": 0.0, "balance_weight": 0.0, "last_layer_decay": 0.0}
    model = with_fixed_scores(batch, straight_through=0.01, **off)
    plain = with_fixed_scores(batch, **off)
    assert torch.equal(objective(model, batch).loss, objective(plain, batch).loss)  # the value is unchanged
    assert gradients(plain, batch)["classifier.scores"] is None

    x = torch.cat([batch.x, batch.x_unlabeled])
    scores = model.classifier.scores.detach()
    labels = one_hot(torch.cat([batch.y, scores[6:].argmax(1)]), 3).float().requires_grad_()
    torch.manual_seed(2)
    (-model.bound(x, model.encoder(x, labels), labels).elbo.mean()).backward()
    _, expected = torch.autograd.functional.vjp(lambda s: softmax(s, dim=1), scores, 0.01 * labels.grad)
    torch.testing.assert_close(gradients(model, batch)["classifier.scores"], expected)

    model.left.fill_(0.25)
    torch.testing.assert_close(gradients(model, batch)["classifier.scores"], expected)
    fading = with_fixed_scores(batch, straight_through=0.01, straight_through_fades=True, **off)
    for left in (1.0, 0.25):
        fading.left.fill_(left)
        torch.testing.assert_close(gradients(fading, batch)["classifier.scores"], left * expected)


def test_the_hat_loss_comes_in_when_a_share_of_training_has_passed():
    batch = small_batch()
    late, without, full = (mmcva(hat_weight=w, hat_starts=s) for w, s in ((0.3, 0.25), (0.0, 0.0), (0.3, 0.0)))
    for left, expected in ((1.0, without), (0.76, without), (0.75, full), (0.01, full)):
        for model in (late, expected):
            model.left.fill_(left)
        torch.testing.assert_close(objective(late, batch).loss, objective(expected, batch).loss)
    assert objective(full, batch).loss != objective(without, batch).loss


def test_labeled_and_unlabeled_rows_share_batch_statistics():
    batch, model = small_batch(), mmcva()
    norm = model.classifier.stack.norms[0]
    seen = []
    norm.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    objective(model, batch)
    assert seen == [11]


def test_all_rows_labeled_leaves_hat_and_balance_out():
    batch = small_batch()
    terms = objective(mmcva(), batch._replace(x_unlabeled=batch.x_unlabeled[:0]))
    assert terms.hat.tolist() == [0]
    assert terms.balance == 0
    assert terms.loss.isfinite()


def test_marginal_bound_is_the_best_mixture_of_the_bounds_of_classes():
    """−U = Σ q (ELBO − log q) ≤ log Σ_k exp ELBO(x, k), and equals it where q is their softmax."""
    torch.manual_seed(0)
    networks = conditional_conv_networks(SHAPE, z=4, n_classes=3)
    model = MarginalConditionalVAE(
        conv_classifier(SHAPE, n_classes=3, dropout=0.0, narrow=False), *networks, n_classes=3
    ).eval()
    x = small_batch().x

    def negative_elbos():
        with torch.no_grad():
            torch.manual_seed(5)
            return torch.stack([model.negative_elbo(x, torch.full((len(x),), k)) for k in range(3)], dim=1)

    best = (-negative_elbos()).logsumexp(dim=1)
    torch.manual_seed(5)
    assert (model.elbo(x) < best).all()
    model.classifier = FixedScores(len(x), 3)
    model.classifier.scores.data = -negative_elbos()
    torch.manual_seed(5)
    torch.testing.assert_close(model.elbo(x), best)


def test_generation_depends_on_code_and_class():
    model = mmcva().eval()
    z = torch.randn(2, 4)
    images = model.generate(z, torch.tensor([0, 0]))
    assert images.shape == (2, *SHAPE)
    assert 0 <= images.min() <= images.max() <= 1
    assert not torch.allclose(images[0], images[1])
    assert not torch.allclose(images, model.generate(z, torch.tensor([1, 1])))
    with pytest.raises(ValueError, match="give y"):
        model.generate(z)


def test_reconstruction_is_conditioned_on_the_predicted_label():
    batch, model = small_batch(), mmcva().eval()
    y = model.scores(batch.x).argmax(1)
    labels = one_hot(y, 3).float()
    torch.manual_seed(0)
    z = model.encoder(batch.x, labels).qz.sample()
    torch.manual_seed(0)
    torch.testing.assert_close(model.reconstruct(batch.x), model.generate(z, y))


@pytest.mark.parametrize(
    ("model", "metrics", "said"),
    [
        (mlp_vae(), {"kl": 0.001}, "latent code"),
        (mlp_vae(), {"kl": 3.0}, None),
        (mmva(), {"kl": 3.0, "hinge": 2.999}, "all classes alike"),
        (mmva(), {"kl": 3.0, "hinge": 2.0}, None),
        (mmva(C=0.0), {"kl": 3.0, "hinge": 3.0}, None),
        (mmcva(), {"kl": 3.0, "hinge": 0.1, "top_class_share": 1.0}, "one class"),
        (mmcva(), {"kl": 3.0, "hinge": 1.0, "top_class_share": 0.2}, "all classes alike"),
        (mmcva(), {"kl": 3.0, "hinge": 0.1, "top_class_share": 0.2}, None),
    ],
)
def test_trivial_solutions_are_recognised(model, metrics, said):
    reason = model.trivial_solution(metrics)
    assert reason is None if said is None else said in reason


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


def test_dense_layers_conditioned_on_labels_are_layers_on_both():
    torch.manual_seed(0)
    encoder = MLPEncoder((3, 1, 1), (4,), z=2, n_classes=2)
    x, labels = torch.randn(5, 3, 1, 1), one_hot(torch.tensor([0, 1, 1, 0, 1]), 2).float()
    layer, of_labels = encoder.stack.layers[0], encoder.stack.of_labels[0]
    weight = torch.cat([layer.weight, of_labels.weight], dim=1)
    literal = torch.nn.functional.softplus(torch.cat([x.flatten(1), labels], dim=1) @ weight.T + layer.bias)
    torch.testing.assert_close(encoder(x, labels).hidden[0], literal)
