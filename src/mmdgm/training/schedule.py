"""The learning rate and progress as pure functions of the step, so that they need no saving."""

import math
from dataclasses import dataclass
from typing import Literal

ScheduleName = Literal["constant", "cosine", "step"]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A base rate, a linear warm-up over the first steps, and a decay.

    constant   the base rate
    cosine     base · ½(1 + cos(π · step / total))
    step       base · factor^n, n = decays so far: one at the epoch `decay_start` and one in every epoch after it
    """

    name: ScheduleName
    base: float
    total_steps: int
    steps_per_epoch: int
    warmup_steps: int = 0
    decay_start: int = 0
    decay_factor: float = 1.0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step. Steps count from 0."""
        return self.base * min(1.0, (step + 1) / (self.warmup_steps + 1)) * self._decay(step)

    def progress(self, step: int) -> float:
        """Return the fraction of all steps that come before this step."""
        return step / self.total_steps

    def _decay(self, step: int) -> float:
        if self.name == "cosine":
            return 0.5 * (1 + math.cos(math.pi * step / self.total_steps))
        if self.name == "step":
            epoch = step // self.steps_per_epoch
            return float(self.decay_factor ** max(0, epoch - self.decay_start + 1))
        return 1.0
