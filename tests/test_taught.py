"""The teacher: a running average that names classes, and what the classifier learns from it."""

import pytest
import torch

from mmdgm.batches import Batch
from mmdgm.models import MaxMarginConditionalVAE, TaughtConditionalVAE, TaughtConditionalVAEConfig
from mmdgm.models.taught import places
from mmdgm.networks import Classifier
from mmdgm.recipes import conditional_conv_networks, conv_classifier
from mmdgm.training import LabelsFirstTraining, replaced_attributes

SHAPE = (1, 8, 8)
WEIGHTS = {"alpha": 0.1, "hat_weight": 0.2, "balance_weight": 1e-2, "last_layer_decay": 1e-3}


def networks(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    classifier = conv_classifier(SHAPE, n_classes=3, dropout=dropout, narrow=False)
    return classifier, *conditional_conv_networks(SHAPE, z=4, n_classes=3)


def taught(**weights):
    return TaughtConditionalVAE(*networks(), n_classes=3, **WEIGHTS | weights)


def small_batch(labeled=6, unlabeled=5):
    torch.manual_seed(1)
    return Batch(torch.rand(labeled, *SHAPE), torch.arange(labeled) % 3, torch.rand(unlabeled, *SHAPE))


def objective(model, batch, seed=2):
    torch.manual_seed(seed)
    return model(batch)


class Given(Classifier):
    """A classifier whose scores are the first pixels of a row, times a weight."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 3, bias=False)
        torch.nn.init.eye_(self.last.weight)

    def features(self, x):
        return x.flatten(1)[:, :3]


def rows_with_scores(scores):
    x = torch.zeros(len(scores), *SHAPE)
    x.flatten(1)[:, :3] = torch.tensor(scores)
    return x


def with_given_scores(**weights):
    _, encoder, decoder = networks()
    return TaughtConditionalVAE(Given(), encoder, decoder, n_classes=3, **WEIGHTS | weights).train()


def test_loss_is_the_sum_of_its_terms():
    model = taught(first_share=1.0, taught_weight=0.7, turn=10.0).train()
    terms = objective(model, small_batch(unlabeled=9))
    decay = 1e-3 * model.classifier.last.weight.square().sum()
    margin_loss = terms.hinge.mean() + 0.2 * terms.hat.mean() + 1e-2 * terms.balance + 0.7 * terms.taught.mean()
    torch.testing.assert_close(terms.loss, 0.1 * (margin_loss + decay) - terms.elbo.mean())
    assert terms.taught.sum() > 0


def test_the_other_margin_terms_are_those_of_the_paper_s_model():
    batch = small_batch()
    plain = MaxMarginConditionalVAE(*networks(), n_classes=3, **WEIGHTS).train()
    expected, terms = plain(batch), taught().train()(batch)
    for name in ("hinge", "hat", "balance", "top_class_share"):
        assert torch.equal(getattr(terms, name), getattr(expected, name))


def test_the_teacher_is_the_running_average_of_weights_and_statistics():
    model = taught(averaging=0.9).train()
    for value in model.teacher.parameters():
        value.zero_()
    before = {name: value.clone() for name, value in model.teacher.state_dict().items()}
    source = {name: value.clone() for name, value in model.classifier.state_dict().items()}
    objective(model, small_batch()).loss.backward()
    for name, value in model.teacher.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value, 0.9 * before[name] + 0.1 * source[name])
    assert all(p.grad is None for p in model.teacher.parameters())
    assert all(p.grad is not None for p in model.classifier.parameters())


SCORES = [[0.2, 1.0, 0.6], [0.1, 0.9, 0.3], [0.0, 1.3, 0.4], [2.0, 0.0, 0.0], [0.5, 0.1, 0.2], [0.0, 0.8, 0.7]]


def test_places_count_the_rows_of_the_same_class_that_lead_by_more():
    # leads: .4 .6 .9 | 2.0 .3 | .1, of classes 1 1 1 | 0 0 | 1
    assert places(torch.tensor(SCORES)).tolist() == [2, 1, 0, 0, 1, 3]


@pytest.mark.parametrize(("share", "sure"), [(0.5, [0, 0, 1, 1, 0, 0]), (1.0, [0, 1, 1, 1, 1, 0])])
def test_of_each_class_the_surest_rows_are_taught(share, sure):
    model = with_given_scores(first_share=share, last_share=share)
    named, found = model._teach(rows_with_scores(SCORES))  # 6 rows, 3 classes: 2 of each at most
    assert named.tolist() == [1, 1, 1, 0, 0, 1]
    assert found.tolist() == sure


def test_the_share_grows_with_the_steps_in_which_something_is_taught():
    model = with_given_scores(first_share=0.2, last_share=0.8, share_steps=4)
    batch = Batch(torch.rand(3, *SHAPE), torch.arange(3), rows_with_scores(SCORES))
    shares = []
    for weight in (0.0, 1.0, 1.0, 1.0, 1.0, 1.0):
        model.taught_weight = weight
        model(batch)
        shares.append(model.share().item())
    assert shares == pytest.approx([0.2, 0.35, 0.5, 0.65, 0.8, 0.8])


def test_taught_is_the_hinge_with_the_named_class_of_sure_rows():
    model = with_given_scores(first_share=0.5, averaging=1.0)
    with torch.no_grad():
        model.classifier.last.weight.mul_(0.5)  # the teacher keeps its weights
    batch = Batch(torch.rand(3, *SHAPE), torch.arange(3), rows_with_scores(SCORES))
    terms = objective(model, batch)
    torch.testing.assert_close(terms.taught, torch.tensor([0, 0, 1 - 0.5 * 0.9, 0, 0, 0]))
    assert terms.sure.tolist() == [0, 0, 1, 1, 0, 0]


def test_the_teacher_averages_over_distorted_views():
    model = with_given_scores(views=3, shift=1.0)
    x = torch.rand(5, *SHAPE)
    seen = []
    model.teacher.register_forward_hook(lambda _, args, scores: seen.append((args[0], scores)))
    named, _ = model._teach(x)
    assert len(seen) == 3
    assert not any(torch.equal(view, x) for view, _ in seen)
    assert named.tolist() == sum(scores for _, scores in seen).argmax(dim=1).tolist()


def test_the_classifier_sees_distorted_images_and_the_generative_model_the_images_and_the_teacher_s_classes():
    model = with_given_scores(turn=20.0, averaging=1.0)
    with torch.no_grad():
        model.classifier.last.weight.mul_(-1)  # so that classifier and teacher disagree
    seen = {}
    model.classifier.register_forward_pre_hook(lambda _, args: seen.update(classifier=args[0]))
    model.encoder.register_forward_pre_hook(lambda _, args: seen.update(encoder=args[0], labels=args[1]))
    batch = Batch(torch.rand(3, *SHAPE), torch.arange(3), rows_with_scores(SCORES))
    terms = model(batch)
    assert seen["classifier"].shape == batch.images().shape
    assert not torch.equal(seen["classifier"], batch.images())
    torch.testing.assert_close(seen["encoder"], batch.images())
    assert seen["labels"].argmax(dim=1).tolist() == [0, 1, 2, 1, 1, 1, 0, 0, 1]
    assert terms.elbo.shape == (9,)


def test_a_look_at_the_objective_changes_nothing():
    model = taught().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for value in model.classifier.parameters():
            value.add_(1)
    model(small_batch())
    for name, value in model.teacher.state_dict().items():
        assert torch.equal(value, before[f"teacher.{name}"])
    assert model.taught_steps == 0


def test_labels_first_means_labels_alone():
    labels, rest = LabelsFirstTraining(label_epochs=2, epochs=3).stages()
    assert (labels.epochs, rest.epochs, dict(rest.weights)) == (2, 3, {})
    model = taught(straight_through=1e-3).train()
    with replaced_attributes(model, labels.weights):
        terms = objective(model, small_batch())
    assert (terms.elbo.item(), terms.taught.item(), model.taught_steps.item()) == (0, 0, 0)
    decay = 1e-3 * model.classifier.last.weight.square().sum()
    torch.testing.assert_close(terms.loss, 0.1 * (terms.hinge.mean() + decay))
    terms.loss.backward()
    assert all(p.grad is None for part in (model.encoder, model.decoder) for p in part.parameters())


def test_a_trained_model_answers_with_the_teacher():
    model = taught(averaging=1.0).train()
    x = torch.rand(4, *SHAPE)
    model.eval()
    before = model.scores(x), model.embed(x)
    with torch.no_grad():
        for value in model.classifier.parameters():
            value.add_(1)
    torch.testing.assert_close((model.scores(x), model.embed(x)), before)


def test_the_teacher_never_drops_out():
    model = taught().train()
    assert model.classifier.training
    assert not model.teacher.training


def test_all_rows_labeled():
    terms = objective(taught().train(), small_batch(unlabeled=0))
    assert (terms.taught.item(), terms.sure.item(), terms.hat.item()) == (0, 0, 0)
    assert terms.loss.isfinite()


def test_config_builds_it_with_all_its_settings():
    settings = {
        "taught_weight": 0.4,
        "averaging": 0.97,
        "first_share": 0.1,
        "last_share": 0.9,
        "share_steps": 7,
        "views": 2,
    }
    distortion = {"turn": 5.0, "shift": 2.0, "zoom": 0.1, "shear": 0.2}
    others = {"alpha": 0.2, "hat_weight": 0.6, "margin": 2.0}
    config = TaughtConditionalVAEConfig(z=4, **settings, **distortion, **others)
    model = config.build(SHAPE, n_classes=3, n_rows=6)
    assert isinstance(model, TaughtConditionalVAE)
    for name, value in (settings | distortion | others).items():
        assert getattr(model, name) == pytest.approx(value)
