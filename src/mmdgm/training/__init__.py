"""From an objective to weights: stages, schedule, optimizer, step, the training loop."""
