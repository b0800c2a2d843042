"""The model of `mmdgm app --demo`: digits of 8×8 pixels from 50 labels, trained once and kept."""

from pathlib import Path

from rich.console import Console

from mmdgm import __version__
from mmdgm.data.datasets import default_data_dir
from mmdgm.devices import Machine
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.experiments.training_runs import train_runs

PRESET = "digits-mmcva-50"


def demo_run(console: Console, *, device: str = "auto") -> Path:
    """Return the folder of the demo's run, in the cache folder; train it if it is not there."""
    folder = RunFolder(default_data_dir() / f"demo-{__version__}")
    if not folder.is_done():
        console.print("training a model of digits, once; it takes less than a minute", highlight=False)
        train_runs(
            find_preset(PRESET).config,
            [(0, folder)],
            overrides={},
            console=console,
            machine=Machine(device),
            resume=folder.config.exists(),
        )
    return folder.path
