"""Adam, with its state in places that stay: a captured step goes on using the same memory."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class FusedAdam(torch.optim.Adam):
    """torch's fused Adam; on a CPU without what its step checks anew every time, 0.15 ms a step."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        if self.defaults["capturable"]:  # on a GPU, where a captured step is free of Python
            super().step()
            return
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            states = [self.state[p] or self._new_state(p) for p in parameters]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                parameters,
                [p.grad for p in parameters],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _new_state(self, parameter: Tensor) -> dict[str, Tensor]:
        # the kernel walks through memory: moments must lie as the (channels-last) parameter does
        state = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        }
        self.state[parameter] = state
        return state

    def reset(self) -> None:
        """Forget all moments, in place."""
        for state in self.state.values():
            for value in state.values():
                value.zero_()

    def fill(self, parameters: Mapping[str, nn.Parameter], saved: Mapping[str, Tensor]) -> None:
        """Take over saved moments, named `parameter/kind`, in place."""
        for key, value in saved.items():
            name, _, kind = key.rpartition("/")
            parameter = parameters[name]
            state = self.state[parameter] or self._new_state(parameter)
            state[kind].copy_(value)


def make_adam(model: nn.Module, rate: Tensor, *, weight_decay: float) -> FusedAdam:
    """Adam for a model; weight decay on weights alone. The rate is a tensor that may be changed in place."""
    groups: dict[float, list[nn.Parameter]] = {}
    # largest first: the kernel takes 34 instead of 57 µs for Conv-MMCVA's on an H200
    for parameter in sorted(model.parameters(), key=torch.numel, reverse=True):
        groups.setdefault(weight_decay if parameter.ndim > 1 else 0.0, []).append(parameter)
    return FusedAdam(
        [{"params": parameters, "weight_decay": decay} for decay, parameters in groups.items()],
        lr=rate,
        fused=True,
        capturable=rate.is_cuda,
    )
