"""The models: networks and an objective, each in one file."""

from mmdgm.models.conditional import ConditionalVAE
from mmdgm.models.marginal import MarginalConditionalVAE, MarginalConditionalVAEConfig
from mmdgm.models.semisupervised import MaxMarginConditionalVAE, MaxMarginConditionalVAEConfig
from mmdgm.models.supervised import MaxMarginVAE, MaxMarginVAEConfig
from mmdgm.models.taught import TaughtConditionalVAE, TaughtConditionalVAEConfig
from mmdgm.models.vae import VAE, VAEConfig

__all__ = [
    "VAE",
    "ConditionalVAE",
    "MarginalConditionalVAE",
    "MarginalConditionalVAEConfig",
    "MaxMarginConditionalVAE",
    "MaxMarginConditionalVAEConfig",
    "MaxMarginVAE",
    "MaxMarginVAEConfig",
    "TaughtConditionalVAE",
    "TaughtConditionalVAEConfig",
    "VAEConfig",
]
