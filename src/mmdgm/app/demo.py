"""The model of `mmdgm app --demo`: digits of 8×8 pixels from 50 labels, trained once and kept.

Its likelihood is Gaussian. With Bernoulli pixels, the code of so few grey pixels carries half a nat, and there is
hardly any style to play with; with Gaussian ones it carries 8 nats.
"""

from pathlib import Path

from rich.console import Console

from mmdgm import __version__
from mmdgm.data.datasets import default_data_dir
from mmdgm.devices import Machine
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.experiments.training_runs import train_runs
from mmdgm.settings import override

PRESET, CHANGES = "digits-mmcva-50", ["likelihood=gaussian", "epochs=60"]


def demo_run(console: Console, *, device: str = "auto") -> Path:
    """Return the folder of the demo's run, in the cache folder; train it if it is not there."""
    folder = RunFolder(default_data_dir() / f"digits-demo-{__version__}")
    if not folder.is_done():
        console.print("training a model of digits, once; it takes less than a minute", highlight=False)
        config, overrides = override(find_preset(PRESET).config, CHANGES)
        train_runs(
            config,
            [(0, folder)],
            overrides=overrides,
            console=console,
            machine=Machine(device),
            resume=folder.config.exists(),
        )
    return folder.path
