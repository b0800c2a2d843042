"""One thread for all calls of a model, so that the server answers while a model computes."""

import asyncio
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mmdgm.inference.per_row import few_rows

T = TypeVar("T")


class Worker:
    """Calls functions one at a time, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")

    async def call(self, function: Callable[[], T]) -> T:
        """Return the function's result. If the asking request is cancelled before its turn, it is not called."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: _quick(function))


def _quick(function: Callable[[], T]) -> T:
    with few_rows(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # estimators warn of what is odd in many rows
        return function()
