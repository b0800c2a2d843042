"""The margin losses against hand-computed values, literal loops, scikit-learn and numerical gradients."""

import math

import pytest
import torch
from sklearn.metrics import hinge_loss
from torch.autograd import gradcheck

from mmdgm.models.losses import hat, hinge, label_balance, lead, mixed

SCORES = torch.tensor([[2.0, 0.5, -1.0], [0.2, 0.1, 0.0], [0.0, 3.0, 1.0]], dtype=torch.float64)


def random_scores(rows=40, classes=5):
    torch.manual_seed(0)
    return torch.randn(rows, classes, dtype=torch.float64), torch.randint(classes, (rows,))


def test_hinge_by_hand():
    # leads by 1.5 ≥ 1; leads by .1 only; true class 2 trails class 1 by 2
    assert hinge(SCORES, torch.tensor([0, 0, 2]), margin=1.0).tolist() == pytest.approx([0.0, 0.9, 3.0])
    assert hinge(SCORES, torch.tensor([0, 0, 2]), margin=3.0).tolist() == pytest.approx([1.5, 2.9, 5.0])


def test_hinge_of_equal_scores_is_the_margin():
    assert hinge(torch.zeros(4, 10), torch.arange(4), margin=3.0).tolist() == [3.0] * 4


def test_hinge_is_the_literal_maximum():
    scores, y = random_scores()
    literal = [
        max((2.0 if k != label else 0.0) + row[k] - row[label] for k in range(5))
        for row, label in zip(scores.tolist(), y.tolist(), strict=True)
    ]
    torch.testing.assert_close(hinge(scores, y, margin=2.0), torch.tensor(literal, dtype=torch.float64))


def test_hinge_with_margin_1_is_scikit_learns():
    scores, y = random_scores()
    assert hinge(scores, y, margin=1.0).mean().item() == pytest.approx(hinge_loss(y, scores.numpy(), labels=range(5)))


def test_hinge_bounds_the_number_of_errors():
    scores, y = random_scores()
    assert (hinge(scores, y, margin=1.0) >= (scores.argmax(1) != y).double()).all()


def test_hinge_subgradient_raises_the_true_score_and_lowers_the_worst_rival():
    scores = SCORES.clone().requires_grad_()
    hinge(scores, torch.tensor([0, 0, 2]), margin=1.0).sum().backward()
    # a satisfied margin gives nothing; row 2's worst rival of class 0 is class 1; row 3's rival is class 1
    assert scores.grad.tolist() == [[0, 0, 0], [-1, 1, 0], [0, 1, -1]]


def test_hat_is_the_gap_to_the_second_largest_score():
    scores, _ = random_scores()
    best, second = scores.topk(2, dim=1).values.T
    torch.testing.assert_close(hat(scores, scores.argmax(1), margin=1.5), (1.5 - (best - second)).clamp(min=0))
    assert hat(SCORES, SCORES.argmax(1), margin=1.0).tolist() == pytest.approx([0.0, 0.9, 0.0])
    assert hat(SCORES, torch.tensor([0, 0, 2]), margin=1.0).tolist() == pytest.approx([0.0, 0.9, 3.0])


def test_hat_of_two_classes_has_the_shape_of_a_hat():
    s = torch.linspace(-2, 2, 41, dtype=torch.float64)
    scores = torch.stack([s / 2, -s / 2], dim=1)
    torch.testing.assert_close(hat(scores, scores.argmax(1), margin=1.0), (1 - s.abs()).clamp(min=0))


def test_label_balance_by_hand():
    labeled = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    unlabeled = torch.tensor([[3.0, 0.0], [1.0, -1.0], [0.0, 0.5], [2.0, 1.0]])
    # labeled: (1, 2)/2 = (.5, 1); unlabeled: class 0 collects 3 + 1 + 2 = 6, class 1 collects .5: (1.5, .125)
    expected = ((1.5 - 0.5) ** 2 + (0.125 - 1.0) ** 2) ** 0.5
    assert label_balance(labeled, torch.tensor([0, 1]), unlabeled).item() == pytest.approx(expected)


def test_label_balance_of_the_same_rows_is_zero_with_a_finite_gradient():
    scores = SCORES.clone().requires_grad_()
    balance = label_balance(scores, SCORES.argmax(1), scores)
    balance.backward()
    assert balance.item() == 0
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("margin", [1.0, 3.0])
def test_gradients_are_the_numerical_ones(margin):
    scores, y = random_scores(rows=6)
    unlabeled = torch.randn(9, 5, dtype=torch.float64).requires_grad_()
    scores.requires_grad_()
    assert gradcheck(lambda s: hinge(s, y, margin=margin), (scores,))
    assert gradcheck(lambda s: hat(s, s.argmax(1), margin=margin), (unlabeled,))
    assert gradcheck(lambda s, u: label_balance(s, y, u), (scores, unlabeled))


def test_label_balance_with_other_shares():
    scores, y = torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 1])
    unlabeled = torch.tensor([[3.0, 1.0]])
    # labeled rows collect (1, 2), weighted (0.5, 3); the unlabeled one (3, 0)
    found = label_balance(scores, y, unlabeled, weight=torch.tensor([0.5, 1.5]))
    torch.testing.assert_close(found, torch.tensor((2.5**2 + 3.0**2) ** 0.5))


def smoothed_by_hand(scores, y, margin, smoothing):
    losses = []
    for row, label in zip(scores.tolist(), y.tolist(), strict=True):
        shortfalls = [(margin if k != label else 0.0) + row[k] - row[label] for k in range(len(row))]
        losses.append(smoothing * math.log(sum(math.exp(s / smoothing) for s in shortfalls)))
    return torch.tensor(losses, dtype=torch.float64)


@pytest.mark.parametrize("smoothing", [0.1, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("margin", [1.0, 3.0])
def test_the_smoothed_hinge_is_the_literal_logarithm_of_sums(margin, smoothing):
    scores, y = random_scores()
    expected = smoothed_by_hand(scores, y, margin, smoothing)
    torch.testing.assert_close(hinge(scores, y, margin=margin, smoothing=smoothing), expected)
    torch.testing.assert_close(hat(scores, y, margin=margin, smoothing=smoothing), expected)


def test_the_smoothed_hinge_by_hand():
    # two classes, margin 1, the true one behind by 1: log(1 + e²); equal: T·log(1 + 3·e^(margin/T))
    scores = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    assert hinge(scores, torch.tensor([0]), margin=1.0, smoothing=1.0).item() == pytest.approx(math.log1p(math.exp(2)))
    assert hinge(torch.zeros(1, 4), torch.tensor([2]), margin=1.0, smoothing=0.5).item() == pytest.approx(
        0.5 * math.log1p(3 * math.exp(2))
    )


def test_without_margin_and_with_smoothing_1_it_is_the_cross_entropy():
    scores, y = random_scores()
    cross_entropy = torch.nn.functional.cross_entropy(scores, y, reduction="none")
    torch.testing.assert_close(hinge(scores, y, margin=0.0, smoothing=1.0), cross_entropy)


def test_smoothing_lies_above_the_maximum_and_goes_to_it():
    scores, y = random_scores()
    exact, last = hinge(scores, y, margin=1.0), math.inf
    assert torch.equal(hinge(scores, y, margin=1.0, smoothing=0.0), exact)
    for smoothing in (1.0, 0.1, 1e-2, 1e-4):
        above = hinge(scores, y, margin=1.0, smoothing=smoothing) - exact
        assert (above >= -1e-12).all()
        assert above.max() <= smoothing * math.log(5) + 1e-12
        assert above.max() < last
        last = above.max()


def test_the_smoothed_hinge_s_gradient_is_softmax_minus_one_hot():
    scores, y = random_scores()
    scores.requires_grad_()
    hinge(scores, y, margin=1.5, smoothing=0.4).sum().backward()
    for row, label, found in zip(scores.tolist(), y.tolist(), scores.grad.tolist(), strict=True):
        powers = [math.exp((s + (1.5 if k != label else 0.0)) / 0.4) for k, s in enumerate(row)]
        expected = [power / sum(powers) - (k == label) for k, power in enumerate(powers)]
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("smoothing", [0.3, 1.0])
def test_smoothed_gradients_are_the_numerical_ones(smoothing):
    scores, y = random_scores(rows=6)
    scores.requires_grad_()
    assert gradcheck(lambda s: hinge(s, y, margin=1.0, smoothing=smoothing), (scores,))
    assert gradcheck(lambda s: hat(s, s.argmax(1), margin=1.0, smoothing=smoothing), (scores,))


def test_large_scores_and_little_smoothing_stay_finite():
    scores = torch.tensor([[1e4, 0.0], [0.0, 1e4]]).requires_grad_()
    found = hinge(scores, torch.tensor([0, 0]), margin=1.0, smoothing=1e-2)
    assert found.tolist() == pytest.approx([0.0, 10001.0])
    found.sum().backward()
    assert scores.grad.tolist() == [[0, 0], [-1, 1]]


def test_the_lead_is_that_of_the_largest_score():
    assert lead(SCORES).tolist() == pytest.approx([1.5, 0.1, 2.0])
    assert lead(torch.tensor([[2.0, 2.0, 1.0], [-3.0, -1.0, -5.0]])).tolist() == [0.0, 2.0]
    scores, _ = random_scores()
    ordered = [sorted(row) for row in scores.tolist()]
    assert lead(scores).tolist() == pytest.approx([row[-1] - row[-2] for row in ordered])
    # the margin less the lead is the hat loss, where it is not 0
    torch.testing.assert_close(hat(scores, scores.argmax(1), margin=2.0), (2 - lead(scores)).clamp(min=0))


def test_mixed_losses_by_hand():
    share, y = torch.tensor([0.5, 0.25, 0.0], dtype=torch.float64), torch.tensor([0, 0, 2])
    # own labels 0, .9, 3; the labels of the rows before are 2, 0, 0: row 1 trails class 2 by 4, row 3 trails by 4
    expected = [0.5 * 0 + 0.5 * 4.0, 0.9, 3.0]
    found = mixed(lambda labels: hinge(SCORES, labels, margin=1.0), share, y)
    assert found.tolist() == pytest.approx(expected)


def test_without_shares_losses_are_not_mixed():
    y = torch.tensor([0, 0, 2])
    found = mixed(lambda labels: hinge(SCORES, labels, margin=1.0), None, y)
    assert found.tolist() == hinge(SCORES, y, margin=1.0).tolist()


def test_all_labels_of_a_mixed_loss_are_those_of_the_row_before():
    share, putative, sure = torch.ones(3), torch.tensor([0, 1, 2]), torch.tensor([True, False, True])
    found = mixed(lambda labels, some: labels * some, share, putative, sure)
    assert found.tolist() == [2, 0, 0]  # labels 2, 0, 1 of which the last is not accepted


COST = torch.tensor([[0, 1, 4, 0.5, 2], [3, 0, 1, 1, 1], [1, 0, 0, 2, 5], [1, 2, 3, 0, 4], [9, 1, 1, 1, 0]]).double()


def test_the_hinge_with_costs_is_the_literal_maximum():
    scores, y = random_scores()
    literal = [
        max(1.5 * COST[label, k].item() + row[k] - row[label] for k in range(5))
        for row, label in zip(scores.tolist(), y.tolist(), strict=True)
    ]
    expected = torch.tensor(literal, dtype=torch.float64)
    torch.testing.assert_close(hinge(scores, y, margin=1.5, cost=COST), expected)
    torch.testing.assert_close(hat(scores, y, margin=1.5, cost=COST), expected)
    for smoothing in (1e-4, 0.5):
        smooth = hinge(scores, y, margin=1.5, cost=COST, smoothing=smoothing)
        assert ((smooth >= expected - 1e-12) & (smooth <= expected + smoothing * math.log(5) + 1e-12)).all()


def test_the_hinge_with_costs_by_hand():
    cost = torch.tensor([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [3.0, 0.5, 0.0]], dtype=torch.float64)
    # row 1, class 0: 1 − 1.5 and 5 − 3; row 2, class 0: 1 − .1 and 5 − .2; row 3, class 2: 3 − 1 and .5 + 2
    y = torch.tensor([0, 0, 2])
    assert hinge(SCORES, y, margin=1.0, cost=cost).tolist() == pytest.approx([2.0, 4.8, 2.5])
    scores = SCORES.clone().requires_grad_()
    hinge(scores, y, margin=1.0, cost=cost).sum().backward()
    assert scores.grad.tolist() == [[-1, 0, 1], [-1, 0, 1], [0, 1, -1]]
    # smoothing 1 and two classes: log(1 + exp(2 + .5))
    two = hinge(torch.tensor([[0.0, 0.5]]), torch.tensor([0]), margin=2.0, cost=cost[:2, :2].float(), smoothing=1.0)
    assert two.item() == pytest.approx(math.log1p(math.exp(2.5)))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cost_1_of_every_error_is_the_default(smoothing):
    scores, y = random_scores()
    every = 1 - torch.eye(5, dtype=torch.float64)
    found = hinge(scores, y, margin=2.0, cost=every, smoothing=smoothing)
    torch.testing.assert_close(found, hinge(scores, y, margin=2.0, smoothing=smoothing), rtol=0, atol=0)


def test_the_hinge_with_costs_bounds_the_cost_of_the_prediction():
    scores, y = random_scores()
    assert (hinge(scores, y, margin=1.0, cost=COST) >= COST[y, scores.argmax(1)]).all()


def test_gradients_with_costs_are_the_numerical_ones():
    scores, y = random_scores(rows=6)
    scores.requires_grad_()
    for smoothing in (0.0, 0.3):
        assert gradcheck(lambda s, T=smoothing: hinge(s, y, margin=1.5, cost=COST, smoothing=T), (scores,))
