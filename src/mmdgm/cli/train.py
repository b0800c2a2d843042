"""`mmdgm train`."""

import re
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from mmdgm.cli.common import LARGEST_SEED, DataDir, Device, Json, err, number, out, print_json
from mmdgm.cli.own import refuse, train_on
from mmdgm.distributed import is_first
from mmdgm.errors import InputError
from mmdgm.experiments import run_folder, training_runs
from mmdgm.experiments.configs import config_from_json
from mmdgm.experiments.own_runs import is_own
from mmdgm.experiments.presets import find_preset
from mmdgm.settings import override


def train(
    preset: Annotated[str | None, typer.Argument(help="Which experiment; `mmdgm list` shows all.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a preset: your data. An npz file with arrays x and y, a folder with one subfolder of "
            "images per class, or a CSV file."
        ),
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="The run's folder. Default: runs/PRESET/seed-SEED, or runs/DATA/seed-SEED.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=LARGEST_SEED, help="Seed of weights, labeled rows and noise [default: 0]."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Several seeds in one process: 0-9, or 0,3,5; run folders seed-0, seed-3, … in RUN_DIR."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in RUN_DIR.")] = False,
    data_dir: DataDir = None,
    target: Annotated[str | None, typer.Option(help="With a CSV file: the column with the labels.")] = None,
    unlabeled: Annotated[
        str | None,
        typer.Option(
            metavar="MARK",
            help="With --data: what unlabeled rows have for a label. Default: -1 in an npz file, an empty cell in "
            "a CSV file; of a folder, the subfolder unlabeled.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="With --data: mmcva, for few labels, or mmva, for many [default: mmcva]."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="With --data: passes over the rows. Default: by their number.")
    ] = None,
    max_time: Annotated[
        float | None, typer.Option(min=1, help="With --data: seconds after which training ends as it is.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="With a folder of images: what they are resized to [default: 32x32]."),
    ] = None,
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
    """Train a preset, or a model of your own data, and leave model, figures and result.json in a run folder.

    Example: `mmdgm train mnist-mmva --run-dir runs/mmva --set epochs=10 --set pretrain_epochs=0 --set batch=200`

    Example: `mmdgm train --data table.csv --target species --run-dir runs/species`
    """
    if data is not None:
        if preset is not None:
            raise InputError(f"give a preset or --data, not both (here: {preset} and {data})")
        refuse({"--resume": resume}, "is not available with --data; train anew, in another --run-dir")
        theirs = {"--seeds": seeds, "--set": set_, "--data-dir": data_dir, "--devices": devices}
        refuse({**theirs, "--num-nodes": num_nodes}, "is for presets, not for --data")
        train_on(
            data,
            run_dir=run_dir,
            model=model or "mmcva",
            target=target,
            unlabeled=unlabeled,
            size=size,
            seed=seed or 0,
            epochs=epochs,
            max_time=max_time,
            device=device,
            as_json=as_json,
        )
        return
    if preset is None:
        raise InputError("Missing argument: give a PRESET (`mmdgm list` shows them), or your own data by --data")
    refuse({"--epochs": epochs}, "is for --data; a preset's epochs are changed by --set epochs=…")
    ours = {"--target": target, "--unlabeled": unlabeled, "--model": model, "--max-time": max_time, "--size": size}
    refuse(ours, "is for --data, not for presets")
    if seed is not None and seeds is not None:
        raise InputError("give --seed for one run or --seeds for several, not both")
    chosen = find_preset(preset).config
    if seeds is None:
        seed = seed or 0
        pairs = [(seed, run_folder.RunFolder(run_dir or Path("runs") / preset / f"seed-{seed}"))]
    else:
        parent = run_dir or Path("runs") / preset
        pairs = [(s, run_folder.RunFolder(parent / f"seed-{s}")) for s in parse_seeds(seeds)]
    if own := [folder.path for _, folder in pairs if is_own(folder.path)]:
        raise InputError(f"{own[0]} holds a run of own data, which cannot be resumed; choose another --run-dir")
    config, overrides = override(chosen, set_ or [])
    if resume and not set_ and (begun := [folder for _, folder in pairs if folder.config.exists()]):
        saved = run_folder.read_run_config(begun[0])
        config, overrides = config_from_json(saved["config"]), saved["overrides"]
        if config.preset != preset:
            raise InputError(f"{begun[0].path} holds a run of {config.preset}, not of {preset}")
    results = training_runs.train_runs(
        config,
        pairs,
        overrides=overrides,
        console=err,
        data_dir=data_dir,
        device=device,
        devices=devices,
        num_nodes=num_nodes,
        resume=resume,
    )
    if not is_first():
        return
    if as_json:
        print_json(results if seeds is not None else results[0])
        return
    table = Table("seed", "test error %", "bound (nats)", "seconds", "run", box=None)
    for (s, folder), result in zip(pairs, results, strict=True):
        table.add_row(
            str(s),
            number(result["error_percent"]),
            number(result["elbo"]),
            f"{result['seconds']:.0f}",
            escape(str(folder.path)),
        )
    errors = [result["error_percent"] for result in results]
    if len(results) > 1 and None not in errors:
        spread = f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}"
        bounds = [result["elbo"] for result in results if result["elbo"] is not None]
        table.add_row("mean", spread, number(float(np.mean(bounds)) if bounds else None), "", "")
    out.print(table)


def parse_seeds(text: str) -> list[int]:
    """Seeds from `0-9`, `0,3,5` or `4`."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = match.groups() if match else ("1", "0")
        new = range(int(first), min(int(last or first), LARGEST_SEED) + 1)
        if not 0 < len(new) <= 1000 or set(new) & set(seeds):
            raise InputError(f"--seeds {text}: give different whole numbers, as in 0-9 or 0,3,5 (at most 1000)")
        seeds += new
    return seeds
