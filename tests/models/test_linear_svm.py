"""The linear SVM of frozen features against autograd, solutions by hand and scikit-learn's solver."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from mmdgm.models.linear_svm import Axes, fit_linear_svm, pegasos, subgradient


def random_rows(rows=40, width=6, classes=5):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    return x, torch.randint(classes, (rows,), generator=generator)


def digits():
    data = load_digits()
    return torch.from_numpy(data.data), torch.from_numpy(data.target)


def objective(weights, x, y, penalty):
    """λ/2 ‖W‖² + the mean over rows of max_k( 1[k≠y] + w_k·x − w_y·x ), literally."""
    total = penalty / 2 * (weights**2).sum()
    for row, label in zip(x, y.tolist(), strict=True):
        shortfalls = [float(k != label) + weights[k] @ row - weights[label] @ row for k in range(len(weights))]
        total = total + torch.stack(shortfalls).max() / len(x)
    return total


def liblinear(x, y, penalty):
    """Weights of the same objective by LinearSVC's dual coordinate descent; x holds its own constant."""
    svm = LinearSVC(
        multi_class="crammer_singer",
        C=1 / (penalty * len(x)),
        fit_intercept=False,
        tol=1e-4,
        max_iter=20_000,
        random_state=0,
    )
    return torch.from_numpy(svm.fit(x.numpy(), y.numpy()).coef_)


def wrong(weights, x, y):
    return ((x @ weights.T).argmax(1) != y).sum().item()


# --- the steps -------------------------------------------------------------------------------------------


def test_subgradient_is_autograds_of_the_literal_objective():
    x, y = random_rows()
    penalties = [0.3, 2.0]
    weights = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours = subgradient(weights, x, y, penalties=torch.tensor(penalties)[:, None, None])
    for one, penalty, gradient in zip(weights, penalties, ours, strict=True):
        leaf = one.clone().requires_grad_()
        objective(leaf, x, y, penalty).backward()
        torch.testing.assert_close(gradient, leaf.grad)


def test_two_rows_by_hand():
    # W = (u, −u) by symmetry: λu² + max(0, 1 − 2u), least at u = 1/λ where that is below 1/2, else at 1/2
    x, y = torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 1])
    soft, hard = pegasos(x, y, n_classes=2, penalties=[4.0, 0.5], steps=1000)
    assert soft.flatten().tolist() == pytest.approx([0.25, -0.25], abs=1e-4)
    assert hard.flatten().tolist() == pytest.approx([0.5, -0.5], abs=0.005)


def test_penalties_side_by_side_are_penalties_one_by_one():
    x, y = random_rows()
    both = pegasos(x, y, n_classes=5, penalties=[0.1, 0.01], steps=50, batch=7)
    for penalty, weights in zip([0.1, 0.01], both, strict=True):
        (alone,) = pegasos(x, y, n_classes=5, penalties=[penalty], steps=50, batch=7)
        torch.testing.assert_close(weights, alone)


def test_objective_on_digits_is_within_a_percent_of_liblinears():
    features, y = digits()
    x = Axes.of(features).rows(features, shrinkage=1.0)
    penalty = 1 / len(x)  # LinearSVC's C = 1
    (ours,) = pegasos(x, y, n_classes=10, penalties=[penalty], steps=3000)
    least = objective(liblinear(x, y, penalty), x, y, penalty).item()
    assert least * 0.9999 < objective(ours, x, y, penalty).item() < least * 1.01


def test_held_out_digits_are_recognised_as_by_liblinear():
    # each of the 1,797 digits is held out once: a row is 0.06 points, and 0.1 points is one row
    features, y = digits()
    penalties = [1 / (0.1 * 1437), 1 / (0.3 * 1437)]  # C = 0.1, 0.3
    ours, theirs = np.zeros(2), np.zeros(2)
    for fitted, held_out in StratifiedKFold(5, shuffle=True, random_state=0).split(features, y):
        axes = Axes.of(features[fitted])
        x, x_held_out = (axes.rows(features[rows], shrinkage=1.0) for rows in (fitted, held_out))
        weights = pegasos(x, y[fitted], n_classes=10, penalties=penalties, steps=3000)
        ours += [wrong(w, x_held_out, y[held_out]) for w in weights]
        theirs += [wrong(liblinear(x, y[fitted], penalty), x_held_out, y[held_out]) for penalty in penalties]
    assert np.abs(ours - theirs).max() / len(y) < 0.001
    assert (ours / len(y) < [0.06, 0.05]).all()


# --- the frame -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shrinkage", [1.0, 0.1, 1e-9])
@pytest.mark.parametrize("rows", [40, 4])
def test_rows_are_centred_and_of_mean_squared_length_1(shrinkage, rows):
    features = 5 + 100 * random_rows(rows)[0]
    x = Axes.of(features).rows(features, shrinkage=shrinkage)
    torch.testing.assert_close(x[:, :-1].mean(0), torch.zeros_like(x[0, :-1]))
    assert x[:, :-1].square().sum(1).mean().item() == pytest.approx(1)
    assert (x[:, -1] == 1).all()


def test_full_shrinkage_keeps_distances_and_none_makes_the_axes_equal():
    features = random_rows()[0] * torch.tensor([1, 2, 3, 4, 5, 600.0])
    axes = Axes.of(features)
    kept, equal = (axes.rows(features, shrinkage=a)[:, :-1] for a in (1.0, 1e-12))
    ratio = torch.pdist(kept) / torch.pdist(features)
    torch.testing.assert_close(ratio, ratio.mean().expand_as(ratio))
    torch.testing.assert_close(equal.T @ equal / 40, torch.eye(6, dtype=torch.float64) / 6, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [40, 4])
def test_the_classifier_of_features_scores_like_that_of_rows(rows):
    features, others = random_rows(rows)[0], random_rows()[0] + 1
    axes = Axes.of(features)
    x = axes.rows(others, shrinkage=0.1)
    weights = torch.randn(3, x.shape[1], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(axes.svm(weights, shrinkage=0.1).scores(others), x @ weights.T)


# --- all of it -------------------------------------------------------------------------------------------


def test_fit_chooses_as_good_a_penalty_as_one_could_for_liblinear():
    features, y = digits()
    fitted, test = np.arange(0, 1797, 2), np.arange(1, 1797, 2)
    svm = fit_linear_svm(features[fitted].float(), y[fitted], n_classes=10, steps=2000)
    ours = (svm.scores(features[test].float()).argmax(1) != y[test]).sum().item()
    x, x_test = (torch.cat([features[rows] / 16, torch.ones(len(rows), 1)], dim=1).double() for rows in (fitted, test))
    best = min(wrong(liblinear(x, y[fitted], 1 / (C * len(x))), x_test, y[test]) for C in (0.01, 0.1, 1.0))
    assert ours <= best + 5  # of 898


def test_units_and_origin_of_the_features_do_not_matter():
    features, y = digits()
    svm, other = (fit_linear_svm(f, y, n_classes=10, steps=60) for f in (features, 1000 * features - 3))
    torch.testing.assert_close(other.scores(1000 * features - 3), svm.scores(features), rtol=1e-6, atol=1e-6)


def test_the_seed_decides_and_no_other_random_state():
    features, y = random_rows()
    fits = []
    for other_seed in (1, 2):
        torch.manual_seed(other_seed)
        before = torch.get_rng_state()
        fits.append(fit_linear_svm(features, y, n_classes=5, steps=60))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(fits[0].weight, fits[1].weight)
    assert torch.equal(fits[0].bias, fits[1].bias)
    runs = [pegasos(features, y, n_classes=5, penalties=[0.1], steps=9, batch=7, seed=seed) for seed in (0, 1)]
    assert not torch.equal(*runs)


def test_classes_that_differ_along_an_axis_of_little_variance():
    noise, y = random_rows(rows=400, width=3, classes=2)
    features = noise * torch.tensor([30.0, 30.0, 0.1])
    features[:, 2] += y
    svm = fit_linear_svm(features, y, n_classes=2, steps=1000)
    assert (svm.scores(features).argmax(1) == y).all()


def test_classes_along_a_line_one_of_them_with_one_row():
    features = torch.cat([torch.linspace(-3, -2, 50), torch.linspace(-0.5, 0.5, 49), torch.tensor([3.0])])[:, None]
    y = torch.tensor([0] * 50 + [2] * 49 + [1])
    svm = fit_linear_svm(features, y, n_classes=4, steps=2000)
    assert (svm.scores(features).argmax(1) == y).all()


def test_more_features_than_rows_and_half_precision():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(20) % 2
    features = torch.randn(20, 300, generator=generator) + 3 * y[:, None]
    svm = fit_linear_svm(features.bfloat16(), y, n_classes=2, steps=200)
    assert svm.weight.dtype == torch.float32
    assert (svm.scores(features.bfloat16()).argmax(1) == y).all()


def test_constant_features_give_the_largest_class():
    svm = fit_linear_svm(torch.full((30, 3), 7.0), torch.tensor([1] * 20 + [0] * 10), n_classes=2, steps=1000)
    assert svm.scores(torch.full((1, 3), 7.0)).argmax().item() == 1
    assert svm.weight.abs().max().item() == 0
