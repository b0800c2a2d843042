"""Fits and predictions in threads and processes at once: the weights and answers are those of one after the other."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine

import mmdgm
from benchmarks.faults import SURVIVED
from mmdgm import MaxMarginImputer, MMCVAClassifier, MMVAClassifier

FAULT = "threads and processes"
WORKERS, SEEDS, REPEATS = 4, 6, 3


def holes(X: Any, seed: int) -> Any:
    """X with a fifth of its values missing."""
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)


def conditional(seed: int) -> Any:
    X, y = load_wine(return_X_y=True)
    few = np.where(np.arange(len(y)) % 5 == 0, y, -1)
    model = MMCVAClassifier(hidden=(16,), max_epochs=5, random_state=seed, device="cpu").fit(holes(X, seed), few)
    return model.decision_function(X), model.impute(holes(X, seed), n_draws=2), model.sample(5, random_state=seed)


def images(seed: int) -> Any:
    X, y = load_digits().images[:60], load_digits().target[:60]
    model = MMVAClassifier(z=3, max_epochs=2, random_state=seed, device="cpu").fit(X, y)
    return model.decision_function(X), model.impute(holes(X, seed), n_iter=3), model.sample(5, random_state=seed)


def imputer(seed: int) -> Any:
    X = holes(load_wine().data, seed)
    return (MaxMarginImputer(max_epochs=5, random_state=seed, device="cpu").fit_transform(X),)


def same(one: Any, other: Any) -> bool:
    """Whether the answers are equal to the last bit."""
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def attacks(folder: Path, share: float) -> Iterator[tuple[str, str]]:
    processes = ProcessPoolExecutor(WORKERS, get_context("spawn"))
    with ThreadPoolExecutor(WORKERS) as threads, processes:
        for work in (conditional, images, imputer):
            alone = [work(seed) for seed in range(SEEDS)]
            for kind, pool in {"threads": threads, "processes": processes}.items():
                for repeat in range(max(1, round(share * REPEATS))):
                    for seed, found in enumerate(pool.map(work, range(SEEDS))):
                        outcome = SURVIVED if same(alone[seed], found) else "other answers"
                        yield f"{work.__name__} in {kind}, seed {seed}, repeat {repeat}", outcome
        yield from saving(threads, folder / "model")


def saving(pool: Executor, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what readers find while several threads save different models in one folder."""
    X, y = load_wine(return_X_y=True)
    models = [MMVAClassifier(hidden=(8,), max_epochs=1, random_state=seed, device="cpu").fit(X, y) for seed in (0, 1)]
    models[0].save(folder)
    answers = [(model.decision_function(X),) for model in models]

    def save_or_load(i: int) -> str:
        if i % 3 == 0:
            models[i % 2].save(folder)
            return SURVIVED
        found = (mmdgm.load(folder).decision_function(X),)
        return SURVIVED if any(same(found, answer) for answer in answers) else "a mixture of two models"

    for i, outcome in enumerate(pool.map(caught(save_or_load), range(60))):
        yield f"{'save' if i % 3 == 0 else 'load'} {i}", outcome


def caught(function: Callable[[int], str]) -> Callable[[int], str]:
    """The function, with an exception as its outcome."""

    def run(i: int) -> str:
        try:
            return function(i)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return run
