"""The models. Each has one file with its networks and objective."""

from mmdgm.models.conditional import ConditionalSettings, ConditionalVAE
from mmdgm.models.m2 import MarginalConditionalSettings, MarginalConditionalVAE, MarginalConditionalVAEConfig
from mmdgm.models.max_margin_conditional import (
    MaxMarginConditionalSettings,
    MaxMarginConditionalVAE,
    MaxMarginConditionalVAEConfig,
)
from mmdgm.models.max_margin_vae import MaxMarginVAE, MaxMarginVAEConfig, MaxMarginVAESettings
from mmdgm.models.vae import VAE, ClassWeights, Trainable, VAEConfig, VAESettings

__all__ = [
    "VAE",
    "ClassWeights",
    "ConditionalSettings",
    "ConditionalVAE",
    "MarginalConditionalSettings",
    "MarginalConditionalVAE",
    "MarginalConditionalVAEConfig",
    "MaxMarginConditionalSettings",
    "MaxMarginConditionalVAE",
    "MaxMarginConditionalVAEConfig",
    "MaxMarginVAE",
    "MaxMarginVAEConfig",
    "MaxMarginVAESettings",
    "Trainable",
    "VAEConfig",
    "VAESettings",
]
