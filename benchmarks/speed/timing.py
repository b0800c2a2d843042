"""Fair timing on a noisy machine: contenders take turns, each figure is the median of its turns.

A contender says how much it did in a turn (images, steps, …); its rate is that per second.
"""

import contextlib
import multiprocessing as mp
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch

Turn = Callable[[], float]  # does some work, and says how much


class Contender(Protocol):
    """Trains an epoch at a time, and knows the bound on held-out images."""

    @property
    def epoch(self) -> Callable[[], int]: ...

    @property
    def bound(self) -> Callable[[torch.Tensor], float]: ...


def synchronise() -> None:
    """Wait until the GPU, if any is in use, has done all that it was given."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def rate(turn: Turn) -> float:
    """Work per second in one turn."""
    synchronise()
    started = time.perf_counter()
    work = turn()
    synchronise()
    return work / (time.perf_counter() - started)


class Rates(dict[str, float]):
    """The median rate of each contender, and how they compare."""

    def __init__(self, by_round: Mapping[str, list[float]]):
        super().__init__({name: statistics.median(values) for name, values in by_round.items()})
        self.by_round = by_round

    def ratio(self, ours: str, theirs: str) -> float:
        """The median over rounds of the quotient in one round: what slows a round down slows both."""
        pairs = zip(self.by_round[ours], self.by_round[theirs], strict=True)
        return statistics.median(one / other for one, other in pairs)


def rates(turns: Mapping[str, Turn], *, rounds: int) -> Rates:
    """Let contenders take turns; a first turn of each, to warm up, does not count."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for counted in [False] + [True] * rounds:
        for name, turn in turns.items():
            value = rate(turn)
            if counted:
                found[name].append(value)
    return Rates(found)


class Remote:
    """A contender in a process of its own, as its users run it: with its own allocator, threads and seeds."""

    def __init__(self, name: str, connection: Connection):
        self.name, self._connection = name, connection

    def ask(self, *question: Any) -> Any:
        self._connection.send(question)
        return self.answer()

    def answer(self) -> Any:
        try:
            value = self._connection.recv()
        except EOFError:
            raise RuntimeError(f"the process of {self.name} has died") from None
        if isinstance(value, BaseException):
            raise value
        return value

    def end(self) -> None:
        self._connection.close()

    def turn(self) -> float:
        return float(self.ask("epoch"))


@contextlib.contextmanager
def remotes(factories: Mapping[str, Callable[[], Contender]]) -> Iterator[dict[str, Remote]]:
    """Start contenders side by side, each from a factory that can be pickled; they wait for their turns."""
    context = mp.get_context("spawn")
    started: dict[str, Remote] = {}
    processes = []
    try:
        for name, factory in factories.items():
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, factory), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            started[name] = Remote(name, ours)
        for remote in started.values():
            remote.answer()  # it is ready
        yield started
    finally:
        for remote in started.values():
            remote.end()
        for process in processes:
            process.join(timeout=10)
            process.terminate()
            process.join()


def _serve(connection: Connection, factory: Callable[[], Contender]) -> None:
    try:
        contender = factory()
        connection.send("ready")
        while True:
            question, *arguments = connection.recv()
            answer = getattr(contender, question)(*arguments)
            synchronise()
            connection.send(answer)
    except (EOFError, BrokenPipeError):  # nobody asks any more
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            connection.send(RuntimeError(f"{type(error).__name__}: {error}"))
