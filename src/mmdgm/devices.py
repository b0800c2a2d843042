"""Set-up of a Lightning Fabric: the device, the number of devices and the number format."""

import atexit
import contextlib
import ctypes
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.strategies.ddp import DDPStrategy

from mmdgm.errors import InputError

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # hides hints about choices made here on purpose

Precision = Literal["32-true", "bf16-mixed"]
WARM_UPS = 3
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h


# torch has one state of random numbers for all threads: whoever seeds it keeps others from it while it draws
RANDOM = threading.RLock()


class Machine(NamedTuple):
    """The hardware to train on: the name of the device, devices per machine, and number of machines."""

    device: str = "auto"
    devices: int | None = None
    num_nodes: int | None = None


def pick_device(name: str) -> torch.device:
    """Return the torch device for the name that a user gave."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise InputError(f"device {name}: use auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: torch sees no GPU here; use cpu")
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """Return a description of the device for people."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' * (threads > 1)}"


def pick_precision(name: Literal["auto"] | Precision, device: torch.device) -> Precision:
    """Return the number format; "auto" means bf16 on a GPU that supports it, else float32."""
    if name != "auto":
        return name
    return "bf16-mixed" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "32-true"


def bf16_is_fast() -> bool:
    """Return whether this CPU multiplies in bf16. Conv nets then train in two thirds of the time."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@contextlib.contextmanager
def seeded(seed: int, *, cuda: torch.device | None = None) -> Iterator[None]:
    """Draw from this seed inside the context, alone among all threads; torch's state of before comes back after it."""
    with RANDOM, torch.random.fork_rng([cuda] if cuda is not None else []):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Bring back torch's random state of before, which the steps inside change. Other threads may draw meanwhile."""
    on_gpus = torch.cuda.is_available() and torch.cuda.is_initialized()
    with RANDOM:
        state, states = torch.random.get_rng_state(), torch.cuda.get_rng_state_all() if on_gpus else []
    try:
        yield
    finally:
        with RANDOM:
            torch.random.set_rng_state(state)
            if states:
                torch.cuda.set_rng_state_all(states)


def capture(function: Callable[[], None], *, warm_up: Callable[[], None] | None = None) -> torch.cuda.CUDAGraph:
    """Return a CUDA graph of a function that works in place, on tensors with fixed addresses.

    `warm_up`, or else the function itself, is called a few times first, so that libraries choose algorithms and
    allocate memory.
    """
    stream = torch.cuda.Stream()  # the warm-up of a capture must not use the default stream
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            (warm_up or function)()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        # torch keeps its own stream set when a capture fails; the outer context restores ours
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
            function()
    except Exception:
        _leave_capture()
        raise
    return graph


def _leave_capture() -> None:
    """Let the GPU draw random numbers again. After a failed capture, its generator waits for the capture to end."""
    device = torch.cuda.current_device()
    torch.cuda.default_generators[device].graphsafe_set_state(
        torch.Generator(device=f"cuda:{device}").graphsafe_get_state()
    )


@contextlib.contextmanager
def trying_algorithms() -> Iterator[None]:
    """Let cuDNN try its algorithms inside this context. This pays because shapes are the same in every step."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the rest of the process, because each step allocates what the last one freed.

    Use it in processes that only train. Without it, MLP-VAE on 2 cores had 1,800 page faults per step, and the
    system took 2.6 of its 33 ms.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 2**30)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def fabric_of_one(device: str, *, precision: Literal["auto"] | Precision) -> Fabric:
    """Return a Fabric for this process alone, also inside a job of SLURM or torchrun."""
    picked = pick_device(device)
    fabric = Fabric(
        accelerator=picked.type,
        devices=1,
        precision=pick_precision(precision, picked),
        plugins=[LightningEnvironment()],
    )
    fabric.launch()
    return fabric


def make_fabric(machine: Machine = Machine(), *, precision: Literal["auto"] | Precision = "auto") -> Fabric:
    """Return a launched Fabric: one process per device, started here or by torchrun, on one or more machines.

    torchrun sets the numbers of devices and machines. Without torchrun, both are 1 by default.
    """
    device, devices, num_nodes = machine
    picked = pick_device(device)
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        machines = int(os.environ["WORLD_SIZE"]) // here
        if (devices or here, num_nodes or machines) != (here, machines):
            raise InputError(f"torchrun started {here} processes on {machines} machines; leave --devices out")
        devices, num_nodes = here, machines
    devices, num_nodes = devices or 1, num_nodes or 1
    if picked.type == "cuda" and devices > torch.cuda.device_count():
        raise InputError(f"--devices {devices}: torch sees {torch.cuda.device_count()} GPUs here")
    fabric = Fabric(
        accelerator=picked.type,
        devices=devices,
        num_nodes=num_nodes,
        precision=pick_precision(precision, picked),
        # a stage may train only a part of the model
        strategy=DDPStrategy(find_unused_parameters=True) if devices * num_nodes > 1 else "auto",
    )
    fabric.launch()
    if fabric.world_size > 1:
        atexit.register(_leave_group)
    return fabric


def _leave_group() -> None:
    """Close the connection to the other processes. A process that exits with it open sometimes aborts (gloo)."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
