"""The averaged model: what the average is, who sees distorted images, whose guesses count."""

import pytest
import torch

from mmdgm import models
from mmdgm.data.batches import Batch
from mmdgm.models import AveragedConditionalVAE, AveragedConditionalVAEConfig, MaxMarginConditionalVAE
from mmdgm.networks.architectures import conditional_conv_networks, conv_classifier
from mmdgm.networks.stacks import Classifier

SHAPE = (1, 8, 8)
WEIGHTS = {"alpha": 0.1, "hat_weight": 0.2, "balance_weight": 1e-2, "last_layer_decay": 1e-3}


def networks(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    classifier = conv_classifier(SHAPE, n_classes=3, dropout=dropout, narrow=False)
    return classifier, *conditional_conv_networks(SHAPE, z=4, n_classes=3)


def averaged(**weights):
    return AveragedConditionalVAE(*networks(), n_classes=3, **WEIGHTS | weights)


def small_batch(labeled=6, unlabeled=5):
    torch.manual_seed(1)
    return Batch(torch.rand(labeled, *SHAPE), torch.arange(labeled) % 3, torch.rand(unlabeled, *SHAPE))


def objective(model, batch, seed=2):
    torch.manual_seed(seed)
    return model(batch)


def shift_weights(network):
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.1)


class Given(Classifier):
    """A classifier whose scores are the first pixels of a row, times a weight."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 3, bias=False)
        torch.nn.init.eye_(self.last.weight)

    def features(self, x):
        return x.flatten(1)[:, :3]


def disagreeing(**weights):
    """A model whose average guesses the largest of a row's first pixels, its classifier the smallest; and rows."""
    model = with_given_scores(averaging=1.0, **weights)
    model.steps.fill_(1e9)
    with torch.no_grad():
        model.classifier.last.weight.mul_(-1)
    unlabeled = torch.zeros(3, *SHAPE)
    unlabeled.flatten(1)[:, :3] = torch.tensor([[0.2, 1.0, 0.6], [0.9, 0.1, 0.3], [0.0, 0.3, 0.4]])
    return model, Batch(torch.rand(3, *SHAPE), torch.arange(3), unlabeled)


def with_given_scores(**weights):
    _, encoder, decoder = networks()
    return AveragedConditionalVAE(Given(), encoder, decoder, n_classes=3, **WEIGHTS | weights).train()


def test_without_distortion_the_first_step_is_that_of_the_paper_s_model():
    batch = small_batch()
    plain = MaxMarginConditionalVAE(*networks(), n_classes=3, straight_through=1e-2, **WEIGHTS).train()
    own = averaged(straight_through=1e-2).train()
    of_plain = MaxMarginConditionalVAE._generative_terms  # the average sees other batch statistics
    own._generative_terms = of_plain.__get__(own)
    expected, terms = objective(plain, batch), objective(own, batch)
    for name, value in expected._asdict().items():
        torch.testing.assert_close(getattr(terms, name), value)
    for part in (expected, terms):
        part.loss.backward()
    for a, b in zip(plain.classifier.parameters(), own.classifier.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_the_average_follows_fast_at_first_and_then_keeps_its_share():
    model = with_given_scores(averaging=0.6)
    batch = Batch(torch.rand(3, *SHAPE), torch.arange(3), torch.rand(2, *SHAPE))
    expected = torch.eye(3)
    for step in range(20):
        with torch.no_grad():
            model.classifier.last.weight.fill_(step)
        objective(model, batch)
        expected = expected + max(0.4, 10 / (10 + step)) * (step - expected)
        torch.testing.assert_close(model.average.last.weight, expected)
    assert model.steps == 20


def test_the_average_takes_in_batch_statistics_and_has_no_gradient():
    model = averaged(averaging=0.6).train()
    model.steps.fill_(1e6)
    before = {name: value.clone() for name, value in model.average.state_dict().items()}
    shift_weights(model.classifier)
    with torch.no_grad():
        for value in model.classifier.buffers():
            value.add_(1)
    source = {name: value.clone() for name, value in model.classifier.state_dict().items()}
    objective(model, small_batch()).loss.backward()
    assert any("running" in name or "mean" in name for name in before)
    for name, value in model.average.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value, 0.6 * before[name] + 0.4 * source[name])
    assert all(p.grad is None for p in model.average.parameters())
    assert all(p.grad is not None for p in model.classifier.parameters())


def test_the_classifier_sees_distorted_images_and_the_generative_model_the_images_and_the_average_s_classes():
    model, batch = disagreeing(turn=20.0)
    seen = {}
    model.classifier.register_forward_pre_hook(lambda _, args: seen.update(classifier=args[0]))
    model.encoder.register_forward_pre_hook(lambda _, args: seen.update(encoder=args[0], labels=args[1]))
    terms = model(batch)
    assert seen["classifier"].shape == batch.images().shape
    assert not torch.equal(seen["classifier"], batch.images())
    assert torch.equal(seen["encoder"], batch.images())
    assert seen["labels"].argmax(dim=1).tolist() == [0, 1, 2, 1, 0, 2]
    assert terms.elbo.shape == (6,)


@pytest.mark.parametrize(("left", "strength"), [(1.0, 1.0), (0.3, 1.0), (0.2, 0.5), (0.1, 0.0), (0.0, 0.0)])
def test_distortions_fade_in_the_last_part_of_training(monkeypatch, left, strength):
    model = averaged(bend=0.5, fading=0.3).train()
    model.left.fill_(left)
    used = {}
    monkeypatch.setattr(models.averaged, "distort", lambda x, **amounts: used.update(amounts) or x)
    model(small_batch())
    assert used["bend"] == 0.5
    assert used["strength"].item() == pytest.approx(strength)


def test_a_look_at_the_objective_changes_nothing_and_distorts_nothing():
    model = averaged(turn=20.0, shift=2.0).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    terms = objective(model, small_batch())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(terms.hinge, objective(averaged().eval(), small_batch()).hinge)


def test_a_trained_model_answers_with_the_average():
    model = averaged().eval()
    x = torch.rand(4, *SHAPE)
    before = model.scores(x), model.embed(x)
    shift_weights(model.classifier)
    torch.testing.assert_close((model.scores(x), model.embed(x)), before)


def test_the_average_never_drops_out():
    model = averaged().train()
    assert model.classifier.training
    assert not model.average.training


def test_the_hat_loss_takes_the_guess_of_the_classifier():
    model, batch = disagreeing()
    terms = model(batch)
    # 1 + the largest score of another class − the score of the guess: 1 − 0.6 + 0.2
    torch.testing.assert_close(terms.hat, torch.tensor([0.6, 0.8, 0.7]))
    assert terms.top_class_share.item() == pytest.approx(2 / 3)


def test_hat_loss_and_bound_begin_with_the_first_guess():
    model, batch = disagreeing(first_guesses=0.3)
    batch = batch._replace(first_guess=torch.tensor([1, 0, -1]))
    seen = {}
    model.encoder.register_forward_pre_hook(lambda _, args: seen.update(labels=args[1]))
    # 1 − 0.2 + 1 where the first guess is trusted, though the classifier's differs; then as without it
    for left, hat in ((0.71, [1.8, 1.8, 0.7]), (0.7, [0.6, 0.8, 0.7])):
        model.left.fill_(left)
        torch.testing.assert_close(model(batch).hat, torch.tensor(hat))
        assert seen["labels"].argmax(dim=1).tolist() == [0, 1, 2, 1, 0, 2]


def test_the_average_is_not_asked_where_nobody_wants_its_guess():
    model = averaged(generative_weight=0.0).train()
    model.average.register_forward_hook(lambda *_: pytest.fail("asked"))
    terms = objective(model, small_batch())
    assert (terms.elbo.item(), terms.hat.shape) == (0, (5,))


def test_all_rows_labeled():
    terms = objective(averaged().train(), small_batch(unlabeled=0))
    assert (terms.balance.item(), terms.hat.item()) == (0, 0)
    assert terms.loss.isfinite()


def test_a_step_is_one_graph():
    """Where a step breaks into several graphs, compiling fails on a GPU or is no use."""
    batch = small_batch()
    batch = batch._replace(first_guess=torch.tensor([0, -1, 2, 1, -1]))
    timed = {"first_guesses": 0.5, "hat_starts": 0.2}
    model, literal = (averaged(turn=10.0, straight_through=1e-3, **timed) for _ in range(2))
    compiled = torch.compile(model.train(), backend="aot_eager", fullgraph=True)
    for step in range(2):
        model.left.fill_(1 - step * 0.6)
        literal.left.fill_(1 - step * 0.6)
        assert objective(compiled, batch, seed=step).loss.item() == pytest.approx(
            objective(literal.train(), batch, seed=step).loss.item(), rel=1e-5
        )
        shift_weights(model.classifier)
        shift_weights(literal.classifier)
    for own, expected in zip(model.average.parameters(), literal.average.parameters(), strict=True):
        torch.testing.assert_close(own, expected)
    assert model.steps == 2


def test_config_builds_it_with_all_its_settings():
    settings = {"averaging": 0.97, "straight_through": 1e-3, "fading": 0.4}
    distortion = {"turn": 5.0, "shift": 2.0, "zoom": 0.1, "shear": 0.2, "bend": 0.5}
    others = {"alpha": 0.2, "hat_weight": 0.6, "margin": 2.0, "hat_starts": 0.1, "first_guesses": 0.3}
    config = AveragedConditionalVAEConfig(z=4, **settings, **distortion, **others)
    model = config.build(SHAPE, n_classes=3, n_rows=6)
    assert isinstance(model, AveragedConditionalVAE)
    assert model.distortion == distortion
    for name, value in (settings | others).items():
        assert getattr(model, name) == pytest.approx(value)
