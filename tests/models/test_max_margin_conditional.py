"""MMCVA's objective against the literal sums of its terms, at every point of training."""

import copy
import dataclasses
import math
import pickle

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot, softmax

from mmdgm.data.batches import Batch
from mmdgm.models import (
    ClassWeights,
    MaxMarginConditionalSettings,
    MaxMarginConditionalVAE,
    MaxMarginConditionalVAEConfig,
    losses,
)
from mmdgm.networks.architectures import conditional_conv_networks, conv_classifier
from mmdgm.networks.mlp import MLPEncoder

SHAPE = (1, 8, 8)


def small_batch(labeled=6, unlabeled=5):
    torch.manual_seed(1)
    return Batch(torch.rand(labeled + unlabeled, *SHAPE), torch.arange(labeled) % 3)


def mmcva(*, weights=ClassWeights(), **settings):
    torch.manual_seed(0)
    return MaxMarginConditionalVAE(
        conv_classifier(SHAPE, n_classes=3, narrow=False),
        *conditional_conv_networks(SHAPE, z=4, n_classes=3),
        MaxMarginConditionalSettings(**settings),
        n_classes=3,
        weights=weights,
    )


def at(progress):
    return torch.tensor(progress, dtype=torch.float64)


def objective(model, batch, **more):
    torch.manual_seed(2)
    return model(batch, **more)


def gradients(model, batch, **more):
    model.zero_grad()
    objective(model, batch, **more).loss.backward()
    return {name: p.grad for name, p in model.named_parameters()}


class FixedScores(nn.Module):
    """A classifier whose scores are parameters, one row per row of the batch; fewer rows are the last ones."""

    def __init__(self, rows, classes):
        super().__init__()
        torch.manual_seed(4)
        self.scores = nn.Parameter(torch.randn(rows, classes))
        self.last = nn.Linear(2, classes)

    def forward(self, x, *, dropout=0.0):
        return self.scores[-len(x) :]


def with_fixed_scores(batch, **settings):
    model = mmcva(**settings)
    model.classifier = FixedScores(len(batch.x), 3)
    return model


def test_the_loss_is_the_sum_of_its_terms():
    batch = small_batch()
    model = with_fixed_scores(batch, alpha=0.2, hat_weight=0.7, balance_weight=0.3, last_layer_decay=0.01)
    terms = objective(model, batch)
    scores, unlabeled = model.classifier.scores[:6], model.classifier.scores[6:]
    hinge = losses.hinge(scores, batch.y, margin=1.0).mean()
    hat = losses.hat(unlabeled, unlabeled.argmax(1), margin=1.0).mean()
    balance = losses.label_balance(scores, batch.y, unlabeled)
    decay = 0.01 * model.classifier.last.weight.square().sum()
    margin_loss = 0.2 * (hinge + 0.7 * hat + 0.3 * balance + decay)

    x, labels = batch.x, one_hot(torch.cat([batch.y, unlabeled.argmax(1)]), 3).float()
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
    margin = {"hat_weight": 0.0, "balance_weight": 0.0, "last_layer_decay": 0.0}
    assert objective(with_fixed_scores(batch, alpha=0.0, generative_weight=0.0), batch).loss.item() == 0
    hinge = objective(with_fixed_scores(batch, generative_weight=0.0, **margin), batch)
    torch.testing.assert_close(hinge.loss, 0.1 * hinge.hinge.mean())
    alone = with_fixed_scores(batch, generative_weight=0.0)
    gradient = gradients(alone, batch)
    assert gradient.pop("classifier.scores").any()
    assert all(value is None for name, value in gradient.items() if not name.startswith("classifier"))


def label_gradient(model, batch):
    """The gradient of the bound's term with respect to one-hot labels, led into softmax(s), literally."""
    scores, n = model.classifier.scores.detach(), len(batch.y)
    labels = one_hot(torch.cat([batch.y, scores[n:].argmax(1)]), 3).float().requires_grad_()
    torch.manual_seed(2)
    (-model.bound(batch.x, model.encoder(batch.x, labels), labels).elbo.mean()).backward()
    return torch.autograd.functional.vjp(lambda s: softmax(s, dim=1), scores, labels.grad)[1]


def test_straight_through_passes_the_labels_gradient_into_the_softmax():
    batch = small_batch()
    model, plain = (with_fixed_scores(batch, straight_through=w, alpha=0.0) for w in (0.01, 0.0))
    assert torch.equal(objective(model, batch).loss, objective(plain, batch).loss)  # the value is unchanged
    assert gradients(plain, batch)["classifier.scores"] is None
    expected = 0.01 * label_gradient(model, batch)
    assert expected.any()
    fading = dataclasses.replace(model.settings, straight_through_fades=True)
    for progress, weight in ((0.0, 1.0), (0.75, 0.25), (1.0, 0.0)):
        constant = gradients(model, batch, progress=at(progress))["classifier.scores"]
        torch.testing.assert_close(constant, expected)
        falling = gradients(model, batch, progress=at(progress), settings=fading)["classifier.scores"]
        torch.testing.assert_close(falling, weight * expected)


def test_hinge_and_hat_are_smoothed_alike():
    batch = small_batch()
    model = with_fixed_scores(batch, alpha=0.2, hat_weight=0.7, smoothing=0.4, margin=1.5, generative_weight=0.0)
    scores = model.classifier.scores.detach()
    labels = torch.cat([batch.y, scores[6:].argmax(1)])
    literal = torch.tensor(
        [
            0.4 * math.log(sum(math.exp((s + 1.5 * (k != y) - row[y]) / 0.4) for k, s in enumerate(row)))
            for row, y in zip(scores.tolist(), labels.tolist(), strict=True)
        ]
    )
    terms = objective(model, batch)
    torch.testing.assert_close(terms.hinge, literal[:6])
    torch.testing.assert_close(terms.hat, literal[6:])
    rest = 1e-3 * terms.balance + 1e-4 * model.classifier.last.weight.square().sum()
    torch.testing.assert_close(terms.loss, 0.2 * (literal[:6].mean() + 0.7 * literal[6:].mean() + rest))
    gradient = gradients(model, batch)["classifier.scores"]
    assert (gradient != 0).all()  # of every class, in every row


@pytest.mark.parametrize(("share", "every"), [(1.0, 1), (0.5, 2), (0.25, 4), (0.1, 10)])
@pytest.mark.parametrize("some_observed", [False, True])
def test_the_bound_is_computed_on_a_share_of_the_rows(share, every, some_observed):
    batch = small_batch()
    if some_observed:
        observed = (torch.rand_like(batch.x) < 0.6).float()
        batch = batch._replace(observed=observed, shown=batch.x * observed)
    model = with_fixed_scores(batch, bound_share=share, alpha=0.0, straight_through=0.01)
    rows = list(range(0, 11, every))
    scores = model.classifier.scores.detach()
    labels = one_hot(torch.cat([batch.y, scores[6:].argmax(1)]), 3).float()[rows].requires_grad_()
    torch.manual_seed(2)
    encoding = model.encoder(batch.seen()[rows], labels)
    pixels = model.decode(encoding.qz.rsample((1,))[0], labels).log_prob(batch.x[rows])
    pixels = pixels if batch.observed is None else pixels * batch.observed[rows]
    elbo = pixels.sum(dim=(1, 2, 3)) - encoding.kl - math.log(3)
    terms = objective(model, batch)
    torch.testing.assert_close(terms.elbo, elbo)
    torch.testing.assert_close(terms.kl, encoding.kl)
    torch.testing.assert_close(terms.loss, -elbo.mean())
    # straight through into the scores of those rows, and of no others
    (-elbo.mean()).backward()
    expected = torch.zeros(11, 3)
    expected[rows] = 0.01 * torch.autograd.functional.vjp(lambda s: softmax(s, 1), scores[rows], labels.grad)[1]
    torch.testing.assert_close(gradients(model, batch)["classifier.scores"], expected)
    assert expected.any()


def test_the_margin_terms_are_of_all_rows_whatever_the_bound_is_of():
    batch = small_batch()
    whole, quarter = (objective(with_fixed_scores(batch, bound_share=share), batch)._asdict() for share in (1.0, 0.25))
    for name in ("hinge", "hat", "balance", "top_class_share"):
        torch.testing.assert_close(whole[name], quarter[name])
    assert (len(whole["elbo"]), len(quarter["elbo"])) == (11, 3)
    # the first row's label and the fifth's are given, the ninth's is propagated
    model = with_fixed_scores(batch, bound_share=0.25, trust_propagated=1.0)
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, args: seen.append(args))
    own = model.classifier.scores[6:].argmax(1)
    objective(model, batch._replace(guess=(own + 1) % 3))
    ((images, labels),) = seen
    assert torch.equal(images, batch.x[[0, 4, 8]])
    assert labels.argmax(1).tolist() == [0, 1, (own[2].item() + 1) % 3]


def test_the_hat_loss_comes_in_when_a_share_of_training_has_passed():
    batch = small_batch()
    late, without, full = (mmcva(hat_weight=w, hat_starts=s) for w, s in ((0.3, 0.25), (0.0, 0.0), (0.3, 0.0)))
    for progress, expected in ((0.0, without), (0.24, without), (0.25, full), (0.99, full)):
        torch.testing.assert_close(
            objective(late, batch, progress=at(progress)).loss,
            objective(expected, batch, progress=at(progress)).loss,
        )
    assert objective(full, batch).loss != objective(without, batch).loss


def test_a_share_that_the_steps_meet_exactly_has_passed():
    """Progress is a float64: in float32, 3/10 would lie above 0.3 and 7/10 below 0.7."""
    batch = small_batch()
    for done in range(1, 10):
        late = mmcva(hat_starts=done / 10, generative_weight=0.0, alpha=1.0)
        before, then = (objective(late, batch, progress=at(step / 10)) for step in (done - 1, done))
        torch.testing.assert_close(then.loss - before.loss, 0.3 * then.hat.mean())


def test_propagated_labels_stand_for_the_classifier_s_while_they_are_trusted():
    batch = small_batch()
    model = with_fixed_scores(batch, trust_propagated=0.3)
    own = model.classifier.scores[6:].argmax(1)
    guess = torch.where(torch.arange(5) < 3, (own + 1) % 3, -1)
    batch = batch._replace(guess=guess)
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, args: seen.append(args[1].argmax(1)[6:]))
    trusted, later = (objective(model, batch, progress=at(progress)) for progress in (0.29, 0.3))
    mixed = torch.where(guess >= 0, guess, own)
    assert torch.equal(seen[0], mixed)
    assert torch.equal(seen[1], own)
    scores = model.classifier.scores[6:]
    torch.testing.assert_close(trusted.hat, losses.hat(scores, mixed, margin=1.0))
    torch.testing.assert_close(later.hat, losses.hat(scores, own, margin=1.0))
    assert trusted.top_class_share == later.top_class_share  # of what the classifier says
    never = objective(model, batch, settings=dataclasses.replace(model.settings, trust_propagated=0.0))
    torch.testing.assert_close(never, later)


def test_settings_of_a_stage_win_over_the_model_s_which_stay():
    model, batch = mmcva(), small_batch()
    own = model.settings
    changes = {"alpha": 2.0, "margin": 0.5, "hat_weight": 0.0, "balance_weight": 0.7, "last_layer_decay": 0.1}
    for more in ({"generative_weight": 0.5, "dropout": 0.0}, {"generative_weight": 0.0, "straight_through": 1.0}):
        stage = dataclasses.replace(own, **changes, **more)
        found, expected = gradients(model, batch, settings=stage), gradients(mmcva(**changes, **more), batch)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert model.settings is own
    assert own == MaxMarginConditionalSettings()
    torch.testing.assert_close(gradients(model, batch), gradients(mmcva(), batch), rtol=0, atol=0)


def test_a_batch_without_labels_trains():
    batch = small_batch(labeled=0)
    model = with_fixed_scores(batch, hat_weight=0.7, last_layer_decay=0.01)
    terms = objective(model, batch)
    assert (terms.hinge.tolist(), terms.balance.item()) == ([0], 0)
    decay = 0.01 * model.classifier.last.weight.square().sum()
    hat = losses.hat(model.classifier.scores, model.classifier.scores.argmax(1), margin=1.0)
    torch.testing.assert_close(terms.loss, 0.1 * (decay + 0.7 * hat.mean()) - terms.elbo.mean())
    found = gradients(mmcva(straight_through=0.01), batch)
    assert all(value is not None and value.isfinite().all() for value in found.values())
    bare = objective(with_fixed_scores(batch, alpha=0.0), batch)
    torch.testing.assert_close(bare.loss, -bare.elbo.mean())


def test_without_margin_terms_the_generative_part_learns_alone():
    batch = small_batch()
    model = mmcva(averaging=0.9, alpha=0.0, bound_share=0.5)
    for part in model.average.classifier.parameters():  # the averaged classifier predicts other labels
        part.data += 0.3 * torch.randn_like(part)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    terms = objective(model, batch)
    terms.loss.backward()
    learned = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert learned == {"encoder", "decoder"}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    y = torch.cat([batch.y, model.average.classifier(batch.x[6:]).argmax(dim=1)])[::2]
    labels = one_hot(y, 3).float()
    torch.manual_seed(2)
    elbo = model.bound(batch.x[::2], model.encoder(batch.x[::2], labels), labels).elbo - math.log(3)
    torch.testing.assert_close(terms.elbo, elbo)
    torch.testing.assert_close(terms.loss, -elbo.mean())


def test_the_bound_counts_observed_values_alone():
    batch = small_batch()
    observed = (torch.rand_like(batch.x) < 0.6).float()
    model = with_fixed_scores(batch, alpha=0.0)
    other = torch.where(observed.bool(), batch.x, torch.rand_like(batch.x))
    # networks see the same, the likelihood is given other values where none was observed
    one, two = (Batch(x, batch.y, observed, shown=batch.x) for x in (batch.x, other))
    torch.testing.assert_close(objective(model, one), objective(model, two))
    torch.testing.assert_close(gradients(model, one), gradients(model, two))
    labels = one_hot(torch.cat([batch.y, model.classifier.scores[6:].argmax(1)]), 3).float()
    torch.manual_seed(2)
    encoding = model.encoder(batch.x, labels)
    pixels = model.decode(encoding.qz.rsample((1,))[0], labels).log_prob(batch.x)
    literal = torch.stack([row[seen].sum() for row, seen in zip(pixels, observed.bool(), strict=True)])
    torch.testing.assert_close(objective(model, one).elbo, literal - encoding.kl - math.log(3))


def test_class_weights_are_factors_of_hinge_and_balance():
    batch = small_batch()
    factors, ratio = torch.tensor([0.5, 1.0, 2.0]), torch.tensor([2.0, 1.0, 0.25])
    model = with_fixed_scores(batch)
    scores = model.classifier.scores
    plain = objective(model, batch)
    model.class_weight, model.balance_ratio = factors, ratio
    weighted = objective(model, batch)
    torch.testing.assert_close(weighted.hinge, plain.hinge * factors[batch.y])
    torch.testing.assert_close(weighted.balance, losses.label_balance(scores[:6], batch.y, scores[6:], weight=ratio))
    built = mmcva(weights=ClassWeights(factors, ratio))
    assert torch.equal(built.class_weight, factors)
    assert torch.equal(built.balance_ratio, ratio)


def test_costs_are_those_of_hinge_and_hat():
    batch = small_batch()
    cost = torch.tensor([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])
    model = with_fixed_scores(batch, margin=1.5)
    scores = model.classifier.scores
    plain = objective(model, batch)
    model.cost = cost
    terms = objective(model, batch)
    torch.testing.assert_close(terms.hinge, losses.hinge(scores[:6], batch.y, margin=1.5, cost=cost))
    putative = scores[6:].argmax(dim=1)
    torch.testing.assert_close(terms.hat, losses.hinge(scores[6:], putative, margin=1.5, cost=cost))
    assert not torch.allclose(terms.hat, plain.hat)
    torch.testing.assert_close(terms.elbo, plain.elbo)
    assert torch.equal(mmcva(weights=ClassWeights(cost=cost)).cost, cost)
    alike = {"hinge": 1.5, "top_class_share": 0.5, "kl": 3.0}
    assert model.trivial_solution(alike, model.settings) is None
    model.cost = None
    assert "alike" in model.trivial_solution(alike, model.settings)


def test_the_hinge_can_weigh_classes_by_their_shares():
    batch = small_batch()
    model = with_fixed_scores(batch)
    by_share = dataclasses.replace(model.settings, hinge_by_share=True)
    plain = objective(model, batch).hinge
    model.balance_ratio = torch.tensor([0.5, 1.0, 3.0])
    assert torch.equal(objective(model, batch).hinge, plain)
    torch.manual_seed(0)
    weighted = model(batch, settings=by_share).hinge
    torch.testing.assert_close(weighted, plain * model.balance_ratio[batch.y])


def test_class_weights_move_and_are_copied_with_the_model_but_not_saved():
    weights = ClassWeights(torch.tensor([0.5, 1.0, 2.0]), torch.tensor([2.0, 1.0, 0.25]))
    model = mmcva(weights=weights)
    assert set(model.state_dict()) == set(mmcva().state_dict())
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again.class_weight, weights.hinge)
        assert torch.equal(again.balance_ratio, weights.balance)
    moved = model.to("meta")
    assert moved.class_weight.is_meta
    assert moved.balance_ratio.is_meta


def test_labeled_and_unlabeled_rows_share_batch_statistics():
    batch, model = small_batch(), mmcva()
    norm = model.classifier.stack.norms[0]
    seen = []
    norm.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    objective(model, batch)
    assert seen == [11]


def test_all_rows_labeled_leaves_hat_and_balance_out():
    batch = small_batch()
    terms = objective(mmcva(), batch._replace(x=batch.x[:6]))
    assert terms.hat.tolist() == [0]
    assert terms.balance == 0
    assert terms.loss.isfinite()


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


def test_the_config_is_the_settings_and_builds_the_networks():
    config = MaxMarginConditionalVAEConfig(z=4, alpha=0.2, hat_weight=0.6, margin=2.0, straight_through=1e-3)
    torch.manual_seed(0)
    model = config.build(SHAPE, n_classes=3, n_rows=6)
    assert model.settings is config
    expected = mmcva(alpha=0.2, hat_weight=0.6, margin=2.0, straight_through=1e-3)
    torch.testing.assert_close(objective(model, small_batch()), objective(expected, small_batch()))


@pytest.mark.parametrize(
    ("settings", "metrics", "said"),
    [
        ({}, {"kl": 3.0, "hinge": 0.1, "top_class_share": 1.0}, "one class"),
        ({}, {"kl": 3.0, "hinge": 1.0, "top_class_share": 0.2}, "alike"),
        ({}, {"kl": 3.0, "hinge": 0.1, "top_class_share": 0.2}, None),
        ({}, {"kl": 0.001, "hinge": 0.1, "top_class_share": 0.2}, "code"),
        ({"generative_weight": 0.0}, {"kl": 0.0, "hinge": 0.1, "top_class_share": 0.2}, None),
        ({"margin": 2.0}, {"kl": 3.0, "hinge": 1.0, "top_class_share": 0.2}, None),
        # equal scores of three classes, smoothed: ½·log(1 + 2e²)
        ({"smoothing": 0.5}, {"kl": 3.0, "hinge": 1.3794, "top_class_share": 0.2}, "alike"),
        ({"smoothing": 0.5}, {"kl": 3.0, "hinge": 1.0, "top_class_share": 0.2}, None),
        ({"alpha": 0.0}, {"kl": 3.0, "hinge": 1.0, "top_class_share": 0.2}, None),
    ],
)
def test_trivial_solutions_of_a_stage_are_recognised(settings, metrics, said):
    model = mmcva()
    reason = model.trivial_solution(metrics, dataclasses.replace(model.settings, **settings))
    assert reason is None if said is None else said in reason


def test_dense_layers_conditioned_on_labels_are_layers_on_both():
    torch.manual_seed(0)
    encoder = MLPEncoder((3, 1, 1), (4,), z=2, n_classes=2)
    x, labels = torch.randn(5, 3, 1, 1), one_hot(torch.tensor([0, 1, 1, 0, 1]), 2).float()
    layer, of_labels = encoder.stack.layers[0], encoder.stack.of_labels[0]
    weight = torch.cat([layer.weight, of_labels.weight], dim=1)
    literal = torch.nn.functional.softplus(torch.cat([x.flatten(1), labels], dim=1) @ weight.T + layer.bias)
    torch.testing.assert_close(encoder(x, labels).hidden[0], literal)


def test_mixup_blends_images_and_losses_within_labeled_and_unlabeled_rows(monkeypatch):
    batch = small_batch(labeled=4, unlabeled=3)
    seen = {}
    model = with_fixed_scores(batch, mixup=0.5, hat_weight=1.0, generative_weight=0.0)
    monkeypatch.setattr(model, "training_scores", lambda x, s: seen.update(x=x) or model.classifier(x))
    terms = objective(model, batch)
    torch.manual_seed(2)
    share = 0.5 * torch.rand(7)
    scores, y = model.classifier.scores, batch.y.tolist()
    putative = scores[4:].argmax(1).tolist()
    for i in range(7):
        before = i - 1 if i not in (0, 4) else i + (3 if i == 0 else 2)
        torch.testing.assert_close(seen["x"][i], (1 - share[i]) * batch.x[i] + share[i] * batch.x[before])
        labels = [*y, *putative]
        own, other = (losses.hinge(scores[i : i + 1], torch.tensor([labels[j]]), margin=1.0) for j in (i, before))
        term = terms.hinge[i] if i < 4 else terms.hat[i - 4]
        torch.testing.assert_close(term, ((1 - share[i]) * own + share[i] * other)[0])


def test_images_are_not_mixed_in_evaluation():
    batch = small_batch()
    plain, mixed = (mmcva(mixup=mixup, generative_weight=0.0).eval() for mixup in (0.0, 0.5))
    assert objective(plain, batch).hinge.tolist() == objective(mixed, batch).hinge.tolist()
