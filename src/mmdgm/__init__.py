"""Max-margin deep generative models: one model that classifies, imputes and generates."""

__version__ = "0.1.0"
