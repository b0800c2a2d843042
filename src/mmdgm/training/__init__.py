"""Training: stages, schedule, optimizer, step, and the training loop."""
