"""What the page Play asks a model of images. Questions and answers are JSON; pictures are bytes in base64."""

import base64
import binascii
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.app.answers import Asked
from mmdgm.app.uploads import read_upload
from mmdgm.data.codecs import ImageCodec
from mmdgm.errors import InputError
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.report.figures import as_pictures

Estimator = MMCVAClassifier | MMVAClassifier
ROUNDS, DRAWS = 20, 6
LARGE, FEWER_ROUNDS, FEWER_DRAWS = 48 * 48, 10, 3  # for images of more values
DIRECTIONS, FARTHEST = 4, 3.0  # of style; how far a slider goes
MOST_CLASSES = 40  # that are generated at once


class ImagePlay:
    """A fitted estimator of images, and rows to show as examples (None: generated ones)."""

    def __init__(self, estimator: Estimator, rows: NDArray[Any] | None = None):
        assert isinstance(estimator.codec_, ImageCodec)
        self.estimator, self.codec, self.rows = estimator, estimator.codec_, rows
        self.shape = (*self.codec.size[:2], self.codec.channels)
        self.generates = bool(estimator.model_.generates)
        self.by_class = self.generates and isinstance(estimator, MMCVAClassifier)
        large = int(np.prod(self.shape)) > LARGE
        self.rounds, self.draws = (FEWER_ROUNDS, FEWER_DRAWS) if large else (ROUNDS, DRAWS)
        self._random = np.random.default_rng(0)

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        return self.estimator.directions(DIRECTIONS)

    def about(self) -> Asked:
        """What the page needs to know of the model."""
        height, width, channels = self.shape
        return {
            "kind": "images",
            "height": height,
            "width": width,
            "channels": 3 if channels == 3 else 1,  # of pictures
            "classes": [str(name) for name in self.estimator.classes_.tolist()],
            "draws": channels in (1, 3),
            "completes": self.generates and not self.codec.normalised,
            "generates": self.generates,
            "by_class": self.by_class,
            "directions": self.directions.tolist() if self.generates else [],
            "farthest": FARTHEST,
            "examples": self.rows is not None or self.generates,
        }

    def look(self, asked: Asked) -> Asked:
        """Classify an image; if a part is missing, complete it: each round of one draw, draws, and their mean.

        The scores are those of the mean, with the range over the draws.
        """
        x = self._image(asked)
        if not np.isnan(x).any():
            rebuilt = self._bytes(self.estimator.reconstruct(x))[0] if self.generates else None
            return {**self._scores(x), "rebuilt": rebuilt}
        rounds = self._completed(x)
        mean = _late_mean(rounds)
        return {
            **self._scores(np.concatenate([mean, rounds[-1, :, 0]])),
            "rounds": self._bytes(rounds[:, 0, 0]),
            "draws": self._bytes(rounds[-1, :, 0]),
            "mean": self._bytes(mean)[0],
        }

    def style(self, asked: Asked) -> Asked:
        """The code of an image, completed if a part is missing."""
        x = self._image(asked)
        if np.isnan(x).any():
            x = _late_mean(self._completed(x))
        return {"code": self.estimator.transform(x)[0].tolist()}

    def generate(self, asked: Asked) -> Asked:
        """Images of a code: one per class, or one if the model is not class-conditional."""
        code = _numbers(asked.get("code"))
        if not self.by_class:
            return {"images": self._bytes(self.estimator.generate(code[None]))}
        classes = self.estimator.classes_[:MOST_CLASSES]
        return {"images": self._bytes(self.estimator.generate(np.repeat(code[None], len(classes), axis=0), classes))}

    def example(self) -> Asked:
        """An image to play with: a row of the data at hand, or a generated one."""
        if self.rows is not None:
            x, said = self.rows[self._random.integers(len(self.rows))][None], "an image of the data"
        else:
            x, said = self.estimator.sample(1, random_state=int(self._random.integers(2**31))), "a generated image"
        return {"pixels": self._bytes(np.nan_to_num(x))[0], "done": f"This is {said}."}

    def upload(self, content: bytes) -> Asked:
        """An image file as a picture of the model's size."""
        height, width, channels = self.shape
        pixels, done = read_upload(content, (channels, height, width))
        return {"pixels": base64.b64encode(pixels.tobytes()).decode(), "done": done}

    def _completed(self, x: NDArray[Any]) -> NDArray[Any]:
        if not self.generates or self.codec.normalised:
            raise InputError("this model cannot complete images")
        return self.estimator.impute_rounds(x, self.rounds, self.draws)

    def _scores(self, X: NDArray[Any]) -> dict[str, Any]:
        scores = self.estimator.class_scores(X)
        return {
            "prediction": int(scores[0].argmax()),
            "scores": scores[0].tolist(),
            "low": scores.min(axis=0).tolist(),
            "high": scores.max(axis=0).tolist(),
        }

    def _image(self, asked: Asked) -> NDArray[np.float32]:
        """The asked image `(1, …)` on the scale of the training images; NaN: missing."""
        height, width, channels = self.shape
        pixels = _bytes_of(asked.get("pixels"), height * width * channels).reshape(1, height, width, channels)
        missing = _bytes_of(asked.get("missing"), height * width).reshape(1, height, width) > 0
        x = self.codec.from_unit((pixels / np.float32(255)).transpose(0, 3, 1, 2))
        x[missing] = np.nan
        return x

    def _bytes(self, X: NDArray[Any]) -> list[str]:
        """Images `(rows, …)` as bytes `(height, width, 1 or 3)` in base64."""
        unit = as_pictures(self.codec, X[None])[0].clip(0, 1).transpose(0, 2, 3, 1)
        return [base64.b64encode(picture.tobytes()).decode() for picture in np.round(unit * 255).astype(np.uint8)]


def image_questions(play: ImagePlay) -> dict[str, Callable[[Asked], Asked]]:
    """The questions with a JSON object as content, by the last part of their path."""
    return {"look": play.look, "style": play.style, "generate": play.generate, "example": lambda _: play.example()}


def _late_mean(rounds: NDArray[Any]) -> NDArray[Any]:
    """The mean `(rows, …)` over draws and the second half of the rounds: it estimates the posterior mean."""
    late = rounds[len(rounds) // 2 + 1 :]
    return np.asarray(late.mean(axis=(0, 1), dtype=np.float64), np.float32)


def _bytes_of(text: Any, size: int) -> NDArray[np.uint8]:
    try:
        content = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        content = b""
    if len(content) != size:
        raise InputError(f"the picture is not one of {size} bytes")
    return np.frombuffer(content, np.uint8)


def _numbers(values: Any) -> NDArray[np.float32]:
    try:
        return np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise InputError("the code holds something else than numbers") from None
