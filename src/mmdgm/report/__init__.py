"""Pictures of arrays and metrics. This package does not train or load models."""
