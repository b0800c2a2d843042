"""All presets by name: their configs, and facts about them."""

import difflib
from dataclasses import dataclass

from mmdgm.errors import InputError
from mmdgm.experiments import mnist_presets as mnist
from mmdgm.experiments import other_presets as other
from mmdgm.experiments.configs import Config, on_labels_alone, variant
from mmdgm.experiments.paper.printed import TABLE_3


@dataclass(frozen=True)
class Preset:
    """A config with the facts that `mmdgm list` shows."""

    config: Config
    model_name: str
    cell: str  # place in the paper, or purpose
    paper: str = "–"  # the paper's figure: test error, or the bound
    time: str = "–"  # on one H200; on 2 CPU cores

    @property
    def name(self) -> str:
        return self.config.preset


def find_preset(name: str) -> Preset:
    """Return a preset by its name, or raise an InputError that names the nearest."""
    for preset in PRESETS:
        if preset.name == name:
            return preset
    names = [preset.name for preset in PRESETS]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(names)}"
    raise InputError(f"there is no preset {name!r}; {hint} (`mmdgm list` shows all)")


PRESETS = (
    Preset(other.DIGITS_MMCVA_50, "Conv-MMCVA", "the demo", time="–; 40 s"),
    Preset(mnist.MNIST_VA, "VA+Pegasos", "Tables 1, 4", paper="1.04 %", time="1 min; 1 h"),
    Preset(mnist.MNIST_MMVA, "MMVA", "Tables 1, 4", paper="0.90 %", time="3 min; 4 h"),
    Preset(mnist.MNIST_CONV_VA, "Conv-VA+Pegasos", "Tables 1, 3–5", paper="1.35 %, bound −93.17", time="2 min; 6 h"),
    Preset(mnist.MNIST_CONV_MMVA, "Conv-MMVA", "Tables 1, 4, 5", paper="0.45 %, bound −99.62", time="2 min; 6 h"),
    *(
        Preset(
            mnist.mnist_conv_mmva(float(C), preset=f"mnist-conv-mmva-C{C}", dropout=0.5),
            "Conv-MMVA",
            "Table 3",
            paper=f"{error:.2f} %, bound −{-bound:.2f}",
            time="2 min; 6 h",
        )
        for C, (error, bound) in TABLE_3.items()
        if C
    ),
    Preset(mnist.MNIST_CNN, "CNN", "Table 5", time="1 min; 3 h"),
    Preset(other.SVHN_CONV_VA, "Conv-VA+Pegasos", "Table 2, there with extra", paper="25.3 %"),
    Preset(other.SVHN_CONV_MMVA, "Conv-MMVA", "Table 2, there with extra", paper="3.09 %"),
    Preset(other.SVHN_CONV_MMVA_C1000, "Conv-MMVA", "Figure of SVHN's samples"),
    Preset(other.SVHN_CNN, "CNN", "Table 2: the same without the bound"),
    Preset(other.SVHN_CONV_MMVA_MODERN, "Conv-MMVA, modern", "beyond", paper="3.09 %"),
    Preset(mnist.MNIST_MMCVA_100, "Conv-MMCVA", "Table 6", paper="1.24 ± 0.54 %", time="1 min; 2 h"),
    Preset(mnist.MNIST_MMCVA_1000, "Conv-MMCVA", "Table 6", paper="0.54 ± 0.04 %", time="1 min; 2 h"),
    Preset(mnist.MNIST_MMCVA_ALL, "Conv-MMCVA", "Table 6", paper="0.31 %", time="1 min; 2 h"),
    Preset(
        mnist.MNIST_MMCVA_100_AUTHORS,
        "Conv-MMCVA",
        "Table 6, as the authors",
        paper="1.24 ± 0.54 %",
        time="12 min; –",
    ),
    *(Preset(config, "Conv-MMCVA", "label curve", time="1 min; 2 h") for config in mnist.MNIST_CURVE),
    *(
        Preset(config, "Conv-MMCVA, averaged", "beyond", time=time)
        for config, time in (
            (mnist.MNIST_MMCVA_100_MODERN, "–; 15 min"),
            (mnist.MNIST_MMCVA_100_NO_GRAPH, "–; 15 min"),
            (mnist.MNIST_MMCVA_1000_MODERN, "–"),
            (mnist.MNIST_MMCVA_ALL_MODERN, "–"),
        )
    ),
    Preset(other.SVHN_MMCVA_1000, "Conv-MMCVA", "Table 7, there with extra", paper="4.95 ± 0.18 %"),
    Preset(other.SVHN_MMCVA_1000_MODERN, "Conv-MMCVA, modern", "beyond", paper="4.95 ± 0.18 %"),
    Preset(other.SVHN_MODERN_CLASSIFIER, "classifier", "ablation"),
    Preset(other.SVHN_MODERN_PAPER_NETWORK, "Conv-MMCVA, the paper's classifier", "ablation"),
    Preset(other.SVHN_MODERN_LABELS_ALONE, "classifier", "labels alone"),
    Preset(other.NORB_MMCVA_1000_MODERN, "Conv-MMCVA, modern", "beyond", paper="6.11 ± 0.58 %"),
    Preset(other.NORB_MODERN_LABELS_ALONE, "classifier", "labels alone"),
    Preset(other.NORB_ALL_MODERN, "classifier", "all labels"),
    Preset(other.NORB_MMCVA_1000, "Conv-MMCVA", "Table 7", paper="6.11 ± 0.58 %"),
    *(
        Preset(config, "classifier", "labels alone")
        for config in map(on_labels_alone, (mnist.MNIST_MMCVA_100, other.SVHN_MMCVA_1000, other.NORB_MMCVA_1000))
    ),
    Preset(variant(mnist.MNIST_MMCVA_100, "no-hat", hat_weight=0.0), "Conv-MMCVA", "ablation", paper="6.4 %"),
    Preset(
        variant(mnist.MNIST_MMCVA_100, "classifier", generative_weight=0.0, straight_through=0.0),
        "classifier",
        "ablation",
        paper="2.1 %",
    ),
    Preset(
        variant(mnist.MNIST_MMCVA_100, "no-balance", balance_weight=0.0),
        "Conv-MMCVA",
        "ablation",
        paper="0.2 points more",
    ),
    Preset(variant(mnist.MNIST_MMCVA_100, "no-straight-through", straight_through=0.0), "Conv-MMCVA", "ablation"),
    Preset(variant(mnist.MNIST_MMCVA_100, "hat3", hat_weight=3.0), "Conv-MMCVA", "ablation"),
    Preset(mnist.MNIST_NAIVE_100, "Conv-MMVA", "§3.3, naive"),
    Preset(mnist.MNIST_M2_100, "M2", "§3.3, marginalising"),
    Preset(mnist.MNIST_M2_100_TUNED, "M2", "§3.3, marginalising", time="6 min; –"),
    Preset(other.FASHION_CONV_MMVA, "Conv-MMVA", "beyond"),
    Preset(other.FASHION_MMCVA_1000, "Conv-MMCVA", "beyond"),
)
