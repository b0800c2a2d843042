"""Pictures of arrays and metrics. Nothing here trains or loads a model."""
