"""The models: networks and an objective, each in one file."""

from mmdgm.models.averaged import AveragedConditionalVAE, AveragedConditionalVAEConfig
from mmdgm.models.conditional import ConditionalVAE
from mmdgm.models.m2 import MarginalConditionalVAE, MarginalConditionalVAEConfig
from mmdgm.models.max_margin_conditional import MaxMarginConditionalVAE, MaxMarginConditionalVAEConfig
from mmdgm.models.max_margin_vae import MaxMarginVAE, MaxMarginVAEConfig
from mmdgm.models.vae import VAE, VAEConfig

__all__ = [
    "VAE",
    "AveragedConditionalVAE",
    "AveragedConditionalVAEConfig",
    "ConditionalVAE",
    "MarginalConditionalVAE",
    "MarginalConditionalVAEConfig",
    "MaxMarginConditionalVAE",
    "MaxMarginConditionalVAEConfig",
    "MaxMarginVAE",
    "MaxMarginVAEConfig",
    "VAEConfig",
]
