"""The page's answers: how long a drawing takes to be classified and completed, and 20 browsers at once.

`python -m benchmarks.app [RUN]`: a run of images. Default: the networks of images of 28×28 pixels, hardly trained.
"""

import base64
import http.client
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from mmdgm import MMCVAClassifier, load
from mmdgm.app.image_play import ImagePlay
from mmdgm.app.play import play_site
from mmdgm.app.server import PageServer

CLIENTS = 20


class Answers(NamedTuple):
    """Seconds of single questions, seconds of questions of many clients at once, and what failed."""

    single: list[float]
    crowded: list[float]
    failed: list[str]


def large_digits(rows: int) -> tuple[Any, Any]:
    """Digits in images of 28×28 pixels, with a margin as in MNIST."""
    digits = load_digits()
    X = np.zeros((rows, 28, 28), np.uint8)
    for image, digit in zip(X, digits.images, strict=False):
        picture = Image.fromarray((digit * 255 / 16).astype(np.uint8))
        image[4:24, 4:24] = np.asarray(picture.resize((20, 20), Image.Resampling.BICUBIC))
    return X, digits.target[:rows]


def untrained(rows: int = 40) -> Any:
    """A classifier with the networks for 28×28 pixels after one step."""
    X, y = large_digits(rows)
    quick = {"augmentation": None, "propagate_labels": False, "batch_size": rows, "max_epochs": 1}
    return MMCVAClassifier(**quick, random_state=0, device="cpu").fit(X, y)


def questions(estimator: Any) -> tuple[str, str]:
    """A question about a whole example, and about the same one with its middle third missing."""
    play = ImagePlay(estimator)
    height, width, _ = play.shape
    missing = np.zeros((height, width), np.uint8)
    whole = {"pixels": play.example()["pixels"], "missing": _text(missing)}
    missing[height // 3 : 2 * height // 3] = 1
    return json.dumps(whole), json.dumps({**whole, "missing": _text(missing)})


def _text(array: Any) -> str:
    return base64.b64encode(array.tobytes()).decode()


def ask(server: PageServer, question: str) -> float:
    """Ask once; return the seconds."""
    own = f"127.0.0.1:{server.port}"
    connection = http.client.HTTPConnection(own, timeout=120)
    headers = {"Cookie": f"mmdgm-{server.port}={server.token}", "Origin": f"http://{own}"}
    began = time.perf_counter()
    try:
        connection.request("POST", "/api/look", question, headers)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != 200 or "scores" not in json.loads(content):
        raise RuntimeError(f"{answer.status}: {content[:100]!r}")
    return time.perf_counter() - began


def measure(estimator: Any, *, single: int, each: int, clients: int = CLIENTS) -> Answers:
    """Ask `single` questions one after the other, then `each` by every client at once."""
    server = PageServer(play_site(estimator, name="benchmark"))
    thread = threading.Thread(target=server.run)
    thread.start()
    _, with_hole = questions(estimator)
    failed: list[str] = []

    def client(_: int) -> list[float]:
        try:
            return [ask(server, with_hole) for _ in range(each)]
        except Exception as error:
            failed.append(str(error))
            return []

    try:
        alone = [ask(server, with_hole) for _ in range(single + 1)][1:]  # the first one warms up
        with ThreadPoolExecutor(clients) as pool:
            crowded = [seconds for found in pool.map(client, range(clients)) for seconds in found]
    finally:
        server.stop()
        thread.join()
    return Answers(alone, crowded, failed)


def main() -> None:
    estimator = load(Path(sys.argv[1])) if len(sys.argv) > 1 else untrained()
    answers = measure(estimator, single=20, each=3)
    print(f"classified and completed: median {1000 * median(answers.single):.0f} ms of {len(answers.single)}")
    print(f"{CLIENTS} clients at once: {len(answers.crowded)} answers, {len(answers.failed)} failed, ", end="")
    print(f"median {median(answers.crowded):.2f} s, longest {max(answers.crowded):.2f} s")
    sys.exit(1 if answers.failed else 0)


if __name__ == "__main__":
    main()
