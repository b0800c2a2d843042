"""The models: networks and an objective, each in one file."""

from mmdgm.models.semisupervised import MaxMarginConditionalVAE, MaxMarginConditionalVAEConfig
from mmdgm.models.supervised import MaxMarginVAE, MaxMarginVAEConfig
from mmdgm.models.vae import VAE, VAEConfig

__all__ = [
    "VAE",
    "MaxMarginConditionalVAE",
    "MaxMarginConditionalVAEConfig",
    "MaxMarginVAE",
    "MaxMarginVAEConfig",
    "VAEConfig",
]
