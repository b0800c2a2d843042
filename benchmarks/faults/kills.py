"""Kills and full disks at every change of a file, while an estimator is saved over another, and during a fit."""

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path

import mmdgm
from benchmarks.faults import SURVIVED
from benchmarks.faults.models import answers, fit, own_data, two_models
from mmdgm.errors import InputError
from mmdgm.estimators import fitting
from tests.faults import failing, killed_at_every_write, struck

FAULT = "kill or full disk at a write"
KILLS_OF_A_FIT = 60


def attacks(folder: Path, share: float) -> Iterator[tuple[str, str]]:
    yield from _saves(folder)
    yield from _fits(folder, max(1, round(share * KILLS_OF_A_FIT)))


def _saves(folder: Path) -> Iterator[tuple[str, str]]:
    old, new = two_models()
    known = {answers(old), answers(new)}
    old.save(folder / "model")
    for at in killed_at_every_write(lambda: new.save(folder / "model")):
        found = answers(mmdgm.load(folder / "model", device="cpu"))
        yield f"kill at change {at} of a save", SURVIVED if found in known else "another model"
        old.save(folder / "model")
    for lasting in (False, True):
        for at in range(1, 25):
            outcome = SURVIVED
            try:
                with failing(at, lasting=lasting):
                    new.save(folder / "model")
            except InputError as error:
                outcome = SURVIVED if "\n" not in str(error) else "several lines"
            found = answers(mmdgm.load(folder / "model", device="cpu"))
            yield f"full disk at change {at} of a save", outcome if found in known else "another model"
            old.save(folder / "model")


def _fits(folder: Path, wanted: int) -> Iterator[tuple[str, str]]:
    """A fit that saves a checkpoint at every log line, killed at `wanted` places between its begin and its end."""
    data, run = own_data(folder), folder / "run"
    saving = fitting.StagedTraining
    fitting.StagedTraining = functools.partial(saving, checkpoint_seconds=0.0)  # type: ignore[assignment,misc]
    try:
        expected = fit(data, folder / "whole")
        changes = 0

        def count(_: int) -> bool:
            nonlocal changes
            changes += 1
            return False

        with struck(count, lambda: None):
            fit(data, folder / "again")
        for at in killed_at_every_write(lambda: fit(data, run), step=max(1, changes // wanted)):
            found = fit(data, run, resume=True)
            yield f"kill at change {at} of {changes} of a fit", SURVIVED if found == expected else "other weights"
            shutil.rmtree(run)
    finally:
        fitting.StagedTraining = saving  # type: ignore[misc]
