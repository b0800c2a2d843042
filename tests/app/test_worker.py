"""The worker: one call at a time, in order, while the loop stays free."""

import asyncio
import threading
import time
import warnings

import pytest

from mmdgm.app.worker import Worker


def test_calls_run_one_at_a_time_and_the_loop_stays_free():
    worker, running, seen, ticks = Worker(), [], [], 0

    def call(number):
        running.append(number)
        seen.append((number, len(running), threading.current_thread() is threading.main_thread()))
        time.sleep(0.02)
        running.remove(number)
        return number * 2

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    async def run():
        beside = asyncio.create_task(tick())
        found = await asyncio.gather(*(worker.call(lambda i=i: call(i)) for i in range(5)))
        beside.cancel()
        return found

    assert asyncio.run(run()) == [0, 2, 4, 6, 8]
    assert seen == [(i, 1, False) for i in range(5)]
    assert ticks > 20


def test_errors_reach_the_caller_and_warnings_of_estimators_do_not_stop_a_call():
    def wrong():
        raise ValueError("as it is")

    def warned():
        warnings.warn("X is odd", UserWarning, stacklevel=1)
        return 1

    assert asyncio.run(Worker().call(warned)) == 1
    with pytest.raises(ValueError, match="as it is"):
        asyncio.run(Worker().call(wrong))
