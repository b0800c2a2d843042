"""The averaged classifier: what the average is, who sees distorted images, whose guesses count."""

import copy
import dataclasses

import pytest
import torch

from mmdgm.data import augmentation
from mmdgm.data.appearance import Appearance
from mmdgm.data.augmentation import Distortion
from mmdgm.data.batches import Batch
from mmdgm.models import (
    MarginalConditionalSettings,
    MarginalConditionalVAE,
    MaxMarginConditionalSettings,
    MaxMarginConditionalVAE,
    MaxMarginConditionalVAEConfig,
)
from mmdgm.models.averaging import AveragedClassifier
from mmdgm.networks.architectures import conditional_conv_networks, conv_classifier
from mmdgm.networks.base import Classifier
from mmdgm.settings import override

SHAPE = (1, 8, 8)
WEIGHTS = {"alpha": 0.1, "hat_weight": 0.2, "balance_weight": 1e-2, "last_layer_decay": 1e-3, "dropout": 0.0}


def networks():
    torch.manual_seed(0)
    classifier = conv_classifier(SHAPE, n_classes=3, narrow=False)
    return classifier, *conditional_conv_networks(SHAPE, z=4, n_classes=3)


def averaged(**changes):
    settings = MaxMarginConditionalSettings(**WEIGHTS | {"averaging": 0.99} | changes)
    return MaxMarginConditionalVAE(*networks(), settings, n_classes=3)


def averaged_m2(**changes):
    settings = MarginalConditionalSettings(**{"dropout": 0.0, "averaging": 0.99} | changes)
    return MarginalConditionalVAE(*networks(), settings, n_classes=3)


MODERN = {
    "accept": 1e-3,
    "weak_shift": 1.0,
    "smoothing": 0.3,
    "bound_share": 0.5,
    "appearance": Appearance(contrast=0.5, brightness=0.3, invert=0.5, blur=1.0, cutout=4),
}
MODELS = pytest.mark.parametrize("build", [averaged, averaged_m2])


def small_batch(labeled=6, unlabeled=5):
    torch.manual_seed(1)
    return Batch(torch.rand(labeled + unlabeled, *SHAPE), torch.arange(labeled) % 3)


def objective(model, batch, seed=2, **more):
    torch.manual_seed(seed)
    return model(batch, **more)


def at(progress):
    return torch.tensor(progress, dtype=torch.float64)


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

    def features(self, x, *, dropout=0.0):
        return x.flatten(1)[:, :3]


def disagreeing(**changes):
    """A model whose average guesses the largest of a row's first pixels, its classifier the smallest; and rows."""
    model = with_given_scores(averaging=1.0, **changes)
    model.average.steps.fill_(1e9)
    with torch.no_grad():
        model.classifier.last.weight.mul_(-1)
    unlabeled = torch.zeros(3, *SHAPE)
    unlabeled.flatten(1)[:, :3] = torch.tensor([[0.2, 1.0, 0.6], [0.9, 0.1, 0.3], [0.0, 0.3, 0.4]])
    return model, Batch(torch.cat([torch.rand(3, *SHAPE), unlabeled]), torch.arange(3))


def with_given_scores(**changes):
    _, encoder, decoder = networks()
    settings = MaxMarginConditionalSettings(**WEIGHTS | changes)
    return MaxMarginConditionalVAE(Given(), encoder, decoder, settings, n_classes=3).train()


def test_there_is_no_average_unless_it_is_asked_for():
    assert averaged(averaging=0.0).average is None
    assert averaged_m2(averaging=0.0).average is None


def test_without_distortion_the_first_step_is_that_without_an_average():
    """But for ŷ in the bound, where the average sees other batch statistics: here all rows have labels."""
    batch = small_batch(unlabeled=0)
    plain, own = (averaged(averaging=a, straight_through=1e-2).train() for a in (0.0, 0.99))
    expected, terms = objective(plain, batch), objective(own, batch)
    torch.testing.assert_close(terms, expected)
    for part in (expected, terms):
        part.loss.backward()
    for a, b in zip(plain.classifier.parameters(), own.classifier.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    margins = {"generative_weight": 0.0}
    plain, own = (averaged(averaging=a, **margins).train() for a in (0.0, 0.99))
    torch.testing.assert_close(objective(own, small_batch()), objective(plain, small_batch()))


def test_the_average_follows_fast_at_first_and_then_keeps_its_share():
    model = with_given_scores(averaging=0.6)
    batch = small_batch(3, 2)
    expected = torch.eye(3)
    for step in range(20):
        with torch.no_grad():
            model.classifier.last.weight.fill_(step)
        objective(model, batch)
        expected = expected + max(0.4, 10 / (10 + step)) * (step - expected)
        torch.testing.assert_close(model.average.classifier.last.weight, expected)
    assert model.average.steps == 20


def test_what_the_average_keeps_is_a_setting_of_the_stage():
    model = with_given_scores(averaging=0.6)
    model.average.steps.fill_(1e6)
    with torch.no_grad():
        model.classifier.last.weight.zero_()
    objective(model, small_batch(), settings=dataclasses.replace(model.settings, averaging=0.9))
    torch.testing.assert_close(model.average.classifier.last.weight, 0.9 * torch.eye(3))


@MODELS
def test_the_average_takes_in_batch_statistics_and_has_no_gradient(build):
    model = build(averaging=0.6).train()
    model.average.steps.fill_(1e6)
    average = model.average.classifier
    before = {name: value.clone() for name, value in average.state_dict().items()}
    shift_weights(model.classifier)
    with torch.no_grad():
        for value in model.classifier.buffers():
            value.add_(1)
    source = {name: value.clone() for name, value in model.classifier.state_dict().items()}
    objective(model, small_batch()).loss.backward()
    assert any("running" in name or "mean" in name for name in before)
    for name, value in average.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value, 0.6 * before[name] + 0.4 * source[name])
    assert all(p.grad is None for p in average.parameters())
    assert all(p.grad is not None for p in model.classifier.parameters())


def test_the_average_is_a_copy_of_its_own():
    classifier = conv_classifier(SHAPE, n_classes=3, narrow=False)
    average = AveragedClassifier(classifier)
    assert not average.train().classifier.training
    before = average.classifier.last.weight.clone()
    shift_weights(classifier)
    assert torch.equal(average.classifier.last.weight, before)
    average.follow(classifier, keep=0.99)  # at step 0 all is taken over
    assert torch.equal(average.classifier.last.weight, classifier.last.weight)


def trained_average():
    """An average whose batch statistics are those of other images, and images."""
    torch.manual_seed(3)
    classifier = conv_classifier(SHAPE, n_classes=3, narrow=False)
    for _ in range(5):
        classifier(torch.rand(8, *SHAPE))
    average = AveragedClassifier(classifier)
    for _ in range(3):
        shift_weights(classifier)
        average.follow(classifier, keep=0.5)
    return average, 2 + 3 * torch.rand(9, *SHAPE)


def test_scores_by_batch_statistics_are_those_of_the_averaged_weights_in_training():
    average, x = trained_average()
    literal = copy.deepcopy(average.classifier).train()
    found = average.scores_by_batch_statistics(x)
    torch.testing.assert_close(found, literal(x))
    assert not torch.allclose(found, average.classifier(x))
    assert not found.requires_grad
    torch.testing.assert_close(average.scores_by_batch_statistics(x), found)


def test_scores_by_batch_statistics_leave_the_average_as_it_was():
    average, x = trained_average()
    answers = average.classifier(x)
    before = {name: value.clone() for name, value in average.state_dict().items()}
    average.scores_by_batch_statistics(x)
    for name, value in average.state_dict().items():
        if value.is_floating_point():
            assert torch.equal(value, before[name])
    assert not any(module.training for module in average.classifier.modules())
    assert torch.equal(average.classifier(x), answers)
    # and it follows as before
    other = copy.deepcopy(average.classifier)
    shift_weights(other)
    with torch.no_grad():
        for value in other.buffers():
            value.add_(1)
    average.follow(other, keep=0.5)
    fraction = 10 / 13
    torch.testing.assert_close(
        average.classifier.stack.norms[0].running_mean,
        before["classifier.stack.norms.0.running_mean"] + fraction,
    )


def test_the_classifier_sees_distorted_images_and_the_generative_model_the_images_and_the_average_s_classes():
    model, batch = disagreeing(distortion=Distortion(turn=20.0))
    seen = {}
    model.classifier.register_forward_pre_hook(lambda _, args: seen.update(classifier=args[0]))
    model.encoder.register_forward_pre_hook(lambda _, args: seen.update(encoder=args[0], labels=args[1]))
    terms = model(batch)
    assert seen["classifier"].shape == batch.x.shape
    assert not torch.equal(seen["classifier"], batch.x)
    assert torch.equal(seen["encoder"], batch.x)
    assert seen["labels"].argmax(dim=1).tolist() == [0, 1, 2, 1, 0, 2]
    assert terms.elbo.shape == (6,)


@MODELS
@pytest.mark.parametrize(
    ("progress", "strength"), [(0.0, 1.0), (0.7, 1.0), (0.8, 0.5), (0.85, 0.25), (0.9, 0.0), (1.0, 0.0)]
)
def test_distortions_fade_in_the_last_part_of_training(monkeypatch, build, progress, strength):
    model = build(distortion=Distortion(bend=0.5, fading=0.3)).train()
    used = {}
    monkeypatch.setattr(augmentation, "distort", lambda x, **amounts: used.update(amounts) or x)
    model(small_batch(), progress=at(progress))
    assert used["bend"] == 0.5
    assert used["strength"].item() == pytest.approx(strength, abs=1e-6)


@MODELS
def test_a_look_at_the_objective_changes_nothing_and_distorts_nothing(build):
    model, plain = build(distortion=Distortion(turn=20.0, shift=2.0)).eval(), build().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    terms = objective(model, small_batch())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    torch.testing.assert_close(terms, objective(plain, small_batch()), rtol=0, atol=0)


@MODELS
def test_a_trained_model_answers_with_the_average(build):
    model = build().eval()
    x = torch.rand(4, *SHAPE)
    before = model.scores(x), model.embed(x)
    shift_weights(model.classifier)
    torch.testing.assert_close((model.scores(x), model.embed(x)), before)
    assert model.answering is model.average.classifier


@MODELS
def test_the_average_never_drops_out_and_is_saved(build):
    model = build(averaging=0.5).train()
    assert model.classifier.training
    assert not model.average.classifier.training
    model.average.steps.fill_(100)
    objective(model, small_batch())
    again = build(averaging=0.5)
    again.load_state_dict(model.state_dict())
    x = small_batch().x
    torch.testing.assert_close(again.eval().scores(x), model.eval().scores(x))
    assert again.average.steps == 101


def test_the_hat_loss_takes_the_guess_of_the_classifier():
    model, batch = disagreeing()
    terms = model(batch)
    # 1 + the largest score of another class − the score of the guess: 1 − 0.6 + 0.2
    torch.testing.assert_close(terms.hat, torch.tensor([0.6, 0.8, 0.7]))
    assert terms.top_class_share.item() == pytest.approx(2 / 3)


def test_hat_loss_and_bound_begin_with_the_propagated_label():
    model, batch = disagreeing(trust_propagated=0.3)
    batch = batch._replace(guess=torch.tensor([2, 0, -1]))
    seen = {}
    model.encoder.register_forward_pre_hook(lambda _, args: seen.update(labels=args[1]))
    # where a propagated label is trusted, 1 + the largest other score − its score: 1 − 0.2 + 0.6 and 1 − 0.1 + 0.9;
    # then as without it: the hat loss goes by the classifier, the bound by the average
    for progress, hat, labels in ((0.29, [1.4, 1.8, 0.7], [2, 0, 2]), (0.3, [0.6, 0.8, 0.7], [1, 0, 2])):
        torch.testing.assert_close(model(batch, progress=at(progress)).hat, torch.tensor(hat))
        assert seen["labels"].argmax(dim=1).tolist() == [0, 1, 2, *labels]


def test_the_average_is_not_asked_where_nobody_wants_its_guess():
    model = averaged(generative_weight=0.0).train()
    model.average.classifier.register_forward_hook(lambda *_: pytest.fail("asked"))
    terms = objective(model, small_batch())
    assert (terms.elbo.item(), terms.hat.shape) == (0, (5,))


# What the average says of unlabeled rows: its guesses, and their leads 0.5, 0.25 and 0.125
KNOWN = torch.tensor([[0.25, 1.0, 0.5], [0.75, 0.25, 0.5], [0.0, 0.25, 0.375]])
GUESSES = [1, 0, 2]


def weak_to_strong(**changes):
    """`disagreeing` with those rows."""
    model, batch = disagreeing(**changes)
    batch.x[3:].flatten(1)[:, :3] = KNOWN
    return model, batch


@pytest.mark.parametrize(
    ("accept", "accepted"),
    [
        (0.0625, [1, 1, 1]),
        (0.125, [1, 1, 1]),
        (0.126, [1, 1, 0]),
        (0.25, [1, 1, 0]),
        (0.5, [1, 0, 0]),
        (0.51, [0] * 3),
    ],
)
def test_a_guess_counts_in_the_hat_loss_where_the_average_leads_by_enough(accept, accepted):
    model, batch = weak_to_strong(accept=accept)
    putative, taken = model._guess(batch.x[3:], model.classifier(batch.x[3:]), model.settings)
    assert putative.tolist() == GUESSES
    assert taken.tolist() == [bool(a) for a in accepted]
    # scores are −pixels: 1 + the guess's pixel − the smallest of the others
    hat = [1 + 1.0 - 0.25, 1 + 0.75 - 0.25, 1 + 0.375 - 0.0]
    expected = torch.tensor(hat) * torch.tensor(accepted)
    terms = model(batch)
    torch.testing.assert_close(terms.hat, expected)
    without = model(batch, settings=dataclasses.replace(model.settings, hat_weight=0.0, generative_weight=0.0))
    alone = model(batch, settings=dataclasses.replace(model.settings, generative_weight=0.0))
    # a mean over all unlabeled rows, not over the accepted ones
    torch.testing.assert_close(alone.loss - without.loss, 0.1 * 0.2 * expected.sum() / 3)


def test_no_gradient_comes_from_guesses_that_are_not_accepted():
    model, batch = weak_to_strong(accept=0.25, generative_weight=0.0, balance_weight=0.0)
    scores = []
    model.classifier.register_forward_hook(lambda _, args, out: out.retain_grad() or scores.append(out))
    model(batch).loss.backward()
    third = 0.1 * 0.2 / 3
    expected = torch.tensor([[third, -third, 0.0], [-third, third, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(scores[0].grad[3:], expected)


def test_without_acceptance_or_average_the_classifier_guesses_for_itself():
    model, batch = weak_to_strong(accept=0.0, weak_shift=2.0)
    scores = model.classifier(batch.x[3:])
    putative, taken = model._guess(batch.x[3:], scores, model.settings)
    assert (putative.tolist(), taken) == (scores.argmax(1).tolist(), None)
    plain = with_given_scores(accept=0.25)
    putative, taken = plain._guess(batch.x[3:], scores, plain.settings)
    assert (putative.tolist(), taken) == (scores.argmax(1).tolist(), None)


def seen_by_the_average(model, batch):
    seen = []
    model.average.classifier.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    torch.manual_seed(5)
    model(batch, settings=dataclasses.replace(model.settings, generative_weight=0.0))
    (images,) = seen
    return images


STRONG = {"distortion": Distortion(turn=20.0, shift=3.0), "appearance": Appearance(invert=1.0, brightness=0.3)}


def test_without_a_weak_shift_the_average_sees_the_unlabeled_images_themselves():
    model, batch = weak_to_strong(accept=0.25, weak_shift=0.0, **STRONG)
    assert torch.equal(seen_by_the_average(model, batch), batch.x[3:])
    torch.testing.assert_close(weak_to_strong(accept=0.25)[0](batch).hat > 0, torch.tensor([True, True, False]))


def test_weak_images_are_shifted_and_no_more():
    """A ramp shifted by (down, right) pixels is, away from its edges, the ramp less a constant."""
    ramp = (10.0 * torch.arange(8)[:, None] + torch.arange(8)).expand(40, 1, 8, 8)
    model, _ = weak_to_strong(accept=0.25, weak_shift=2.0, **STRONG)
    seen = seen_by_the_average(model, Batch(torch.cat([torch.rand(3, *SHAPE), ramp]), torch.arange(3)))
    moved = (ramp - seen)[..., 2:-2, 2:-2].flatten(1)  # 10·down + right
    torch.testing.assert_close(moved, moved[:, :1].expand_as(moved), atol=1e-4, rtol=0)
    assert moved.abs().max() <= 22
    assert len(moved[:, 0].unique()) == 40


@pytest.mark.parametrize(("edges", "least"), [("zeros", 0.0), ("border", 1.0)])
def test_weak_images_have_the_edges_of_distorted_ones(edges, least):
    model, _ = weak_to_strong(accept=0.25, weak_shift=3.0, distortion=Distortion(edges=edges))
    white = Batch(torch.ones(23, *SHAPE), torch.arange(3))
    assert seen_by_the_average(model, white).min().item() == pytest.approx(least, abs=1e-5)


def test_guesses_are_by_the_batch_statistics_of_the_weak_images():
    model = averaged(accept=1e-6, generative_weight=0.0).train()
    batch = small_batch()
    shift_weights(model.average.classifier)
    model.average.steps.fill_(1e9)
    settings = dataclasses.replace(model.settings, averaging=1.0)
    literal = copy.deepcopy(model.average.classifier).train()(batch.x[6:])
    putative, taken = model._guess(batch.x[6:], torch.zeros(5, 3), settings)
    assert torch.equal(putative, literal.argmax(1))
    first, second = literal.sort(dim=1, descending=True).values[:, :2].T
    assert torch.equal(taken, first - second >= 1e-6)


def test_the_classifier_sees_the_images_distorted_and_in_another_light():
    model, batch = weak_to_strong(appearance=Appearance(invert=1.0))
    seen = {}
    model.classifier.register_forward_pre_hook(lambda _, args: seen.update(classifier=args[0]))
    model.encoder.register_forward_pre_hook(lambda _, args: seen.update(encoder=args[0]))
    model(batch)
    assert torch.equal(seen["classifier"], 1 - batch.x)
    assert torch.equal(seen["encoder"], batch.x)
    model.eval()(batch)
    assert torch.equal(seen["classifier"], batch.x)


def test_all_rows_labeled():
    terms = objective(averaged().train(), small_batch(unlabeled=0))
    assert (terms.balance.item(), terms.hat.item()) == (0, 0)
    assert terms.loss.isfinite()


@MODELS
def test_a_batch_without_labels(build):
    terms = objective(build().train(), small_batch(labeled=0))
    assert terms.loss.isfinite()
    assert terms.elbo.shape == (5,)


@pytest.mark.parametrize(
    ("build", "timed"),
    [
        (averaged, {"straight_through": 1e-3, "trust_propagated": 0.5, "hat_starts": 0.2}),
        (averaged, MODERN),
        (averaged_m2, {}),
    ],
)
def test_a_step_is_one_graph(build, timed):
    """Where a step breaks into several graphs, compiling fails on a GPU or is no use."""
    torch._dynamo.reset()
    batch = small_batch()._replace(guess=torch.tensor([0, -1, 2, 1, -1]))
    model, literal = (build(distortion=Distortion(turn=10.0, fading=0.5), **timed).train() for _ in range(2))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for step in range(3):
        found, expected = (objective(m, batch, seed=step, progress=at(step * 0.4)) for m in (compiled, literal))
        assert found.loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
        shift_weights(model.classifier)
        shift_weights(literal.classifier)
    for own, expected in zip(model.average.parameters(), literal.average.parameters(), strict=True):
        torch.testing.assert_close(own, expected)
    assert model.average.steps == 3


def test_config_builds_it_with_all_its_settings():
    words = ["averaging=0.97", "turn=5", "bend=0.5", "fading=0.4", "trust_propagated=0.3", "edges=border"]
    words += ["colour=0.1", "cutout=3", "smoothing=0.2", "weak_shift=1", "accept=0.5", "bound_share=0.25"]
    config, _ = override(MaxMarginConditionalVAEConfig(z=4), words)
    model = config.build(SHAPE, n_classes=3, n_rows=6)
    assert isinstance(model.average, AveragedClassifier)
    assert (model.settings.averaging, model.settings.trust_propagated) == (0.97, 0.3)
    assert model.settings.distortion == Distortion(turn=5.0, bend=0.5, fading=0.4, edges="border")
    assert model.settings.appearance == Appearance(colour=0.1, cutout=3)
    weak_to_strong = (model.settings.smoothing, model.settings.weak_shift, model.settings.accept)
    assert (*weak_to_strong, model.settings.bound_share) == (0.2, 1.0, 0.5, 0.25)
