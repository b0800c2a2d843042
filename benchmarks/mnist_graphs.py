"""The choice of a graph for MNIST with 100 labels, by the labels of 10,000 held-out training images.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/mnist_graphs.py --data-dir FOLDER [--out FILE]

(FOLDER/mnist holds the four official files.) The graph has the other 50,000 training images, 100 of them labeled;
their other labels are used nowhere. The held-out images lie outside the graph: each takes the class with the largest
mean chance of its neighbours in the graph. Seeds differ in the labeled images. It takes half an hour on one core.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from mmdgm.data import datasets
from mmdgm.data.splits import labeled_draw, validation_split
from mmdgm.experiments.provenance import software
from mmdgm.files import write_json
from mmdgm.propagation.features import outlines
from mmdgm.propagation.graph import DeformationSearch, Neighbours, graph_of, nearest_rows, weights
from mmdgm.propagation.propagate import chances_of_others, class_chances, class_strength

RESULTS = Path(__file__).parents[1] / "results" / "estimators" / "mnist-graphs.json"
LABELS, HELD_OUT = 100, 10_000
SEEDS = (10, 11, 12, 13, 14, 15)
NEIGHBOURS = (5, 10)
KAPPAS = (0.99, 0.995, 0.998, 0.999)


def searches() -> Iterator[tuple[str, Any]]:
    """Yield the kinds of neighbours by name, as functions of the images and of those to search."""
    most = max(NEIGHBOURS)
    for straighten, radius in product((True, False), (2, 1)):
        name = f"deformation, windows of {2 * radius + 1}×{2 * radius + 1}{'' if straighten else ', not straightened'}"
        yield name, DeformationSearch(straighten=straighten, radius=radius, neighbours=most)

    def by_outlines(x: torch.Tensor, among: torch.Tensor | None = None) -> Neighbours:
        like = x if among is None else among
        return nearest_rows(outlines(x, like=like), most, None if among is None else outlines(among))

    yield "outlines", by_outlines


def first(neighbours: Neighbours, k: int) -> Neighbours:
    return Neighbours(neighbours.distance[:, :k], neighbours.number[:, :k])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="the folder that holds mnist/")
    parser.add_argument("--images", type=int, default=50_000, help="images in the graph")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    console, found = Console(), list[dict[str, Any]]()
    dataset = datasets.load("mnist", arguments.data_dir)
    inside, outside = validation_split(dataset.y_train, HELD_OUT)
    inside = inside[: arguments.images]
    x, held_out = (torch.from_numpy(dataset.x_train[rows] / np.float32(dataset.scale)) for rows in (inside, outside))
    y, truth = dataset.y_train[inside], dataset.y_train[outside]
    for name, search in searches():
        near, near_held_out = search(x), search(held_out, x)
        for k in NEIGHBOURS:
            graph, others = graph_of(first(near, k)), first(near_held_out, k)
            for kappa in KAPPAS:
                errors = []
                for seed in SEEDS:
                    given = np.full(len(y), -1)
                    labeled = labeled_draw(y, LABELS, seed=seed)
                    given[labeled] = y[labeled]
                    chances = class_chances(class_strength(graph, given, kappa=kappa), given)
                    mean = chances_of_others(chances, weights(others).numpy(), others.number.numpy())
                    errors.append(round(float(100 * (mean.argmax(axis=1) != truth).mean()), 2))
                found.append({"distance": name, "neighbours": k, "kappa": kappa, "errors": errors})
                console.print(name, k, kappa, f"{np.mean(errors):.2f}", errors, highlight=False)
                write_json(arguments.out, {**software(), "seeds": SEEDS, "held out, error %": found})


if __name__ == "__main__":
    main()
