"""The command `mmdgm train`."""

import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from mmdgm.cli.common import LARGEST_SEED, DataDir, Device, Json, err, number, out, path, print_json
from mmdgm.devices import Machine
from mmdgm.distributed import is_first
from mmdgm.errors import InputError, printable
from mmdgm.experiments.configs import config_from_json
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.experiments.training_runs import train_runs
from mmdgm.settings import override


def train(
    preset: Annotated[str, typer.Argument(help="Which experiment; `mmdgm list` shows all.")],
    run_dir: Annotated[
        Path | None, typer.Option(parser=path, help="The run's folder. Default: runs/PRESET/seed-SEED.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=LARGEST_SEED, help="Seed of weights, labeled rows and noise [default: 0]."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Several seeds in one process: 0-9, or 0,3,5; run folders seed-0, seed-3, … in RUN_DIR."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in RUN_DIR.")] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    devices: Annotated[
        int | None, typer.Option(min=1, help="Devices per machine: GPUs, or CPU processes [default: 1].")
    ] = None,
    num_nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Machines; start the command on each, with NODE_RANK and MASTER_ADDR set."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train one of the paper's presets, and write the model, figures and result.json to a run folder.

    To train on your own data, use `mmdgm fit`.

    Example: `mmdgm train mnist-mmva --run-dir runs/mmva --set epochs=10 --set pretrain_epochs=0 --set batch=200`
    """
    chosen = find_preset(preset).config
    if seed is not None and seeds is not None:
        raise InputError("give --seed for one run or --seeds for several, not both")
    parent = run_dir or Path("runs") / preset
    if seeds is None:
        runs = [(seed or 0, RunFolder(run_dir or parent / f"seed-{seed or 0}"))]
    else:
        runs = [(s, RunFolder(parent / f"seed-{s}")) for s in parse_seeds(seeds)]
    config, overrides = override(chosen, set_ or [])
    if resume and not set_ and (begun := [folder for _, folder in runs if folder.config.exists()]):
        about = begun[0].about()
        if "config" in about:
            config, overrides = config_from_json(about["config"]), about["overrides"]
        if config.preset != preset:
            raise InputError(f"{begun[0].path} holds a run of {config.preset}, not of {preset}")
    machine = Machine(device, devices, num_nodes)
    results = train_runs(
        config, runs, overrides=overrides, console=err, data_dir=data_dir, machine=machine, resume=resume
    )
    if not is_first():
        return
    if as_json:
        print_json(results if seeds is not None else results[0])
        return
    out.print(table_of(runs, results))


def table_of(runs: list[tuple[int, RunFolder]], results: list[dict[str, Any]]) -> Table:
    """Return a table with one line per run, and the mean if there are several."""
    table = Table("seed", "test error %", "bound (nats)", "seconds", "run", box=None)
    for (seed, folder), result in zip(runs, results, strict=True):
        figures = [number(result["error_percent"]), number(result["elbo"]), f"{result['seconds']:.0f}"]
        table.add_row(str(seed), *figures, escape(printable(folder.path)))
    errors = [result["error_percent"] for result in results]
    if len(results) > 1 and None not in errors:
        spread = f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}"
        bounds = [result["elbo"] for result in results if result["elbo"] is not None]
        table.add_row("mean", spread, number(float(np.mean(bounds)) if bounds else None), "", "")
    return table


def parse_seeds(text: str) -> list[int]:
    """Return the seeds in a text such as `0-9`, `0,3,5` or `4`."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = match.groups() if match else ("1", "0")
        new = range(int(first), min(int(last or first), LARGEST_SEED) + 1)
        if not 0 < len(new) <= 1000 or set(new) & set(seeds):
            raise InputError(f"--seeds {text}: give different whole numbers, as in 0-9 or 0,3,5 (at most 1000)")
        seeds += new
    return seeds
