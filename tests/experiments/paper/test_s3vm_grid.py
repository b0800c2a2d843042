"""The grid of shallow S3VMs: weights of its cells, errors on held-out images alone, work that is not repeated."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from mmdgm.data import datasets
from mmdgm.experiments.paper import s3vm_grid
from mmdgm.experiments.paper.runner import Reproduction
from mmdgm.files import read_json
from small_datasets import input_error

HAT = {"means": (0.3, 3), "sums": (0.001, 0.1, 3)}
BALANCE = {"means": (0.001, 0.1, 1), "sums": (0.001, 1)}


@pytest.fixture(name="work")
def make_work(monkeypatch, tmp_path):
    """A quick reproduction on digits of 8×8 pixels, whose test images are not there."""
    digits = datasets.load("digits")
    monkeypatch.setattr(datasets, "load", lambda *_, **__: dataclasses.replace(digits, x_test=None, y_test=None))
    for name, value in {"ALPHAS_HAT": HAT, "ALPHAS_BALANCE": BALANCE, "LABELS": 20, "QUICK_STEPS": 3}.items():
        monkeypatch.setattr(s3vm_grid, name, value)

    def work(seeds=None, quick=True):
        console = Console(file=io.StringIO())
        return Reproduction(out=tmp_path, seeds=seeds, quick=quick, console=console, device="cpu")

    return work


def test_weights_of_the_cells_come_row_by_row(monkeypatch):
    monkeypatch.setattr(s3vm_grid, "ALPHAS_HAT", HAT)
    monkeypatch.setattr(s3vm_grid, "ALPHAS_BALANCE", BALANCE)
    hat, balance = s3vm_grid.weights_of_grid(labeled=100, unlabeled=49_900)
    expected_hat = [0, *[0.3] * 3, *[3] * 3, *[0.499] * 2, *[49.9] * 2, *[1497] * 2]
    expected_balance = [0, *[0.001, 0.1, 1] * 2, *[0.00001, 0.01] * 3]
    torch.testing.assert_close(hat, torch.tensor(expected_hat))
    torch.testing.assert_close(balance, torch.tensor(expected_balance))


def test_a_grid_goes_on_where_it_was_interrupted(work):
    file, picture = s3vm_grid.make_s3vm_grid(work())
    first = read_json(file)
    assert (first["quick"], first["settings"]["steps"]) == (True, 3)
    assert [(e["seed"], e["network"], e["unlabeled rows"]) for e in first["errors"]] == [
        (10, network, start) for network in ("linear", "one layer") for start in ("from the start", "after the labels")
    ]
    for errors in first["errors"]:
        assert (np.shape(errors["means"]), np.shape(errors["sums"])) == ((2, 3), (3, 2))
        assert all(0 < error < 100 for part in ("means", "sums") for error in np.ravel(errors[part]))
    alone = [errors["labels alone"] for errors in first["errors"]]
    assert (alone[0], alone[2]) == (alone[1], alone[3])  # whenever the unlabeled rows come in
    with Image.open(picture) as image:
        assert image.width == 1240
    second = read_json(s3vm_grid.make_s3vm_grid(work(seeds=2))[0])
    assert second["errors"][:4] == first["errors"]
    assert [errors["seed"] for errors in second["errors"][4:]] == [11] * 4
    assert "steps=3, not 600; choose another --out" in input_error(s3vm_grid.make_s3vm_grid, work(quick=False))
    assert read_json(file) == second


def test_a_cell_is_that_of_a_plain_loop(work):
    """Trained alone: α_U = 0.001 and α_B = 1 of the objective of sums."""
    rows = s3vm_grid.rows_of(work().dataset())
    errors = s3vm_grid.errors_of_draw(rows, hidden=0, labels_alone=2, steps=6, seed=3, device=torch.device("cpu"))
    y = np.full(len(rows.y), -1)
    labeled = s3vm_grid.labeled_draw(rows.y, 20, seed=3)
    y[labeled] = rows.y[labeled]
    store = s3vm_grid.Store(torch.from_numpy(np.ascontiguousarray(rows.x)), torch.from_numpy(y))
    torch.manual_seed(3)
    network = s3vm_grid.s3vm_network(rows.x.shape[1:], 10, hidden=0)
    optimizer = torch.optim.Adam(network.parameters())
    unlabeled = len(y) - 20
    for step, batch in enumerate(s3vm_grid.batches_of(store, s3vm_grid.Reading(rows.scale), steps=6, seed=3)):
        optimizer.param_groups[0]["lr"] = 1e-3 * 0.5 * (1 + np.cos(np.pi * step / 6))
        optimizer.zero_grad()
        scores = network(batch.x)
        hinge = literal_hinge(scores[:20], batch.y)
        putative = scores[20:].argmax(dim=1)
        hat = literal_hinge(scores[20:], putative)
        means = [
            torch.stack([part[label == k, k].sum() / len(part) for k in range(10)])
            for part, label in ((scores[20:], putative), (scores[:20], batch.y))
        ]
        on = step >= 2
        loss = hinge.mean() + on * 0.001 * unlabeled / 20 * hat.mean() + on * 1 / 20 * (means[0] - means[1]).norm()
        loss.backward()
        optimizer.step()
    x = torch.from_numpy(rows.x_validation / np.float32(rows.scale))
    wrong = network(x).argmax(dim=1).numpy() != rows.y_validation
    assert errors["sums"][0][1] == pytest.approx(100 * wrong.mean(), abs=0.3)  # one image of 400 is 0.2


def literal_hinge(scores, y):
    """max over classes of 1[k ≠ y] + s_k − s_y."""
    rows = torch.arange(len(y))
    wrong = torch.ones_like(scores)
    wrong[rows, y] = 0
    return (scores + wrong).max(dim=1).values - scores[rows, y]


def test_the_page_has_the_published_errors():
    root = Path(__file__).parents[3]
    result, page = read_json(root / "results" / "s3vm-grid" / "errors.json"), (root / "docs" / "mmcva.md").read_text()
    settings = result["settings"]
    for panel in s3vm_grid.panels(result):
        objective, network, rest = panel.title.replace("\n", " ").split(", ")
        start = rest.removeprefix("unlabeled rows ").partition(" (")[0]
        draws = [e for e in result["errors"] if (e["network"], e["unlabeled rows"]) == (network, start)]
        assert sorted(e["seed"] for e in draws) == [10, 11, 12]
        mean = np.mean([e[objective] for e in draws], axis=0)
        i, j = np.unravel_index(mean.argmin(), mean.shape)
        at = f"({settings['alpha_hat'][objective][i]:g}, {settings['alpha_balance'][objective][j]:g})"
        alone = np.mean([e["labels alone"] for e in draws])
        at_paper = mean[settings["alpha_hat"][objective].index(3), settings["alpha_balance"][objective].index(0.001)]
        line = f"| {objective} | {network} | {start} | {alone:.1f} | {mean.min():.1f} | {at} | {at_paper:.1f} |"
        assert line in page
