"""Image files that a browser sends, converted to pictures like those that a model was trained on.

Small grey images are usually characters, cut out and centred as in MNIST. A file for such a model is treated in the
same way: light paper becomes dark, the ink is cut out, scaled without distortion, and centred by its mass.
"""

import io
import warnings

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmdgm.data.batches import Shape
from mmdgm.data.image_files import plain_picture
from mmdgm.errors import InputError, one_line

MOST_PIXELS = 24_000_000
SMALL = 32  # a side of images that are treated as characters
MARGIN_FROM, MARGIN = 24, 4  # MNIST: 20×20 pixels of ink in 28×28
INK = 0.15  # of the contrast: what counts as ink


def read_upload(content: bytes, shape: Shape) -> tuple[NDArray[np.uint8], str]:
    """Return a file's picture `(height, width, channels)` and a sentence on what was done to it."""
    channels, height, width = shape
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture = plain_picture(io.BytesIO(content), channels, most_pixels=MOST_PIXELS)
    except InputError:
        raise
    except Exception as error:  # Pillow raises errors of many types on broken files
        raise InputError(f"this file cannot be read as an image ({one_line(error)})") from None
    done = f"The file of {picture.width}×{picture.height} pixels was "
    if channels == 1 and max(height, width) <= SMALL:
        character, inverted = centred(np.asarray(picture, np.float32) / np.float32(255), height, width)
        done += "inverted (dark on light), " if inverted else ""
        done += f"cut to its ink, scaled to {height}×{width} and centred, as in MNIST."
        return np.round(character * 255).astype(np.uint8)[:, :, None], done
    resized = picture.resize((width, height), Image.Resampling.LANCZOS)
    done += f"resized to {height}×{width}{' in grey' if channels == 1 else ''}."
    return np.asarray(resized, np.uint8).reshape(height, width, channels), done


def centred(ink: NDArray[np.float32], height: int, width: int) -> tuple[NDArray[np.float32], bool]:
    """Return a picture in [0, 1] as a light character on black `(height, width)`, and whether it was inverted.

    The frame of the picture is paper: if it is light, the picture is inverted.
    """
    frame = np.concatenate([ink[0], ink[-1], ink[:, 0], ink[:, -1]])
    inverted = bool(np.median(frame) > 0.5)
    ink = 1 - ink if inverted else ink
    ink = ink - min(float(np.median(1 - frame if inverted else frame)), float(ink.max()))
    ink = (ink / max(float(ink.max()), 1e-6)).clip(0, 1)
    rows, columns = (np.flatnonzero((ink > INK).any(axis=axis)) for axis in (1, 0))
    if not len(rows) or ink.max() <= 0:
        raise InputError("this image is empty: all of it has one colour")
    cut = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    margin = MARGIN if min(height, width) >= MARGIN_FROM else 0
    factor = min((height - 2 * margin) / cut.shape[0], (width - 2 * margin) / cut.shape[1])
    size = tuple(max(1, round(side * factor)) for side in cut.shape)
    small = np.asarray(Image.fromarray(cut).resize((size[1], size[0]), Image.Resampling.LANCZOS)).clip(0, 1)
    mass = small.sum()
    place = []
    for axis, (side, whole) in enumerate(zip(size, (height, width), strict=True)):
        centre = float((small.sum(axis=1 - axis) * (np.arange(side) + 0.5)).sum() / mass)
        place.append(int(np.clip(round(whole / 2 - centre), 0, whole - side)))
    result = np.zeros((height, width), np.float32)
    result[place[0] : place[0] + size[0], place[1] : place[1] + size[1]] = small
    return result, inverted
