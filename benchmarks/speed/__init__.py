"""Yardsticks: what the same training, or its rival, costs when written otherwise."""
