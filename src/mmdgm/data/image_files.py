"""Users' image files of any size and mode, converted to images like those that a model was trained on.

Only the first frame is read, turned by its EXIF orientation. Transparent pixels become black, the training data's 0.
The image becomes grey or RGB, as the model needs, and is resized to the model's height × width by Lanczos' filter.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from mmdgm.data.batches import Shape
from mmdgm.errors import InputError, one_line

# only pixel formats: Pillow passes others, such as EPS, to external programs
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "JPEG2000", "PPM")
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".jp2", ".pbm", ".pgm", ".ppm")
MODES = {1: "L", 3: "RGB"}
WHITE, WHITE_16 = 255, 65535


@dataclass(frozen=True, kw_only=True)
class ReadImages:
    """The images that could be read, and an error line for each file that could not."""

    paths: list[Path]
    unit: NDArray[np.float32]  # (rows, channels, height, width) in [0, 1]
    broken: list[str]


def files_in(folder: Path) -> list[Path]:
    """The image files of a folder, found by their endings and sorted. Hidden files and subfolders are left out."""
    try:
        found = [path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and path.is_file()]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    files = sorted(path for path in found if not path.name.startswith("."))
    if not files:
        endings = ", ".join(ending[1:] for ending in ENDINGS)
        raise InputError(f"{folder}: holds no image files ({endings}; subfolders are not searched)")
    return files


def read_images(paths: list[Path], shape: Shape) -> ReadImages:
    """Read files as images of the given shape."""
    if shape[0] not in MODES:
        raise InputError(f"the model's images have {shape[0]} channels, image files 1 or 3; give an npz file")
    read, pixels, broken = [], [], []
    for path in paths:
        try:
            pixels.append(_read_pixels(path, shape))
            read.append(path)
        except InputError as error:
            broken.append(f"{path}: {error}")
        except Exception as error:  # Pillow raises errors of many types on broken files
            broken.append(f"{path}: cannot be read as an image ({one_line(error)})")
    unit = (np.array(pixels).reshape(-1, *shape).astype(np.float64) / WHITE).astype(np.float32)
    return ReadImages(paths=read, unit=unit, broken=broken)


def _read_pixels(path: Path, shape: Shape) -> NDArray[np.float32]:
    """One file as pixels 0..255 of the given shape."""
    channels, height, width = shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # only errors are reported
        plain = plain_picture(path, channels)
    resized = np.asarray(plain.resize((width, height), Image.Resampling.LANCZOS), np.float32).clip(0, WHITE)
    return np.broadcast_to(resized.reshape(height, width, -1).transpose(2, 0, 1), shape)


def plain_picture(file: Path | BinaryIO, channels: int, *, most_pixels: int | None = None) -> Image.Image:
    """Return a file's first picture, upright, without transparency, grey or RGB. Pillow's errors are not caught.

    `most_pixels`: raise InputError for larger pictures, before their pixels are read.
    """
    with Image.open(file, formats=FORMATS) as image:
        if most_pixels is not None and image.width * image.height > most_pixels:
            raise InputError(
                f"the image has {image.width}×{image.height} pixels; at most {most_pixels / 1e6:g} million are read"
            )
        upright = ImageOps.exif_transpose(image)
        return _plain(upright, MODES[channels], image.format)


def _plain(image: Image.Image, mode: str, file_format: str | None) -> Image.Image:
    """The image without transparency in the given mode. A 16-bit image becomes grey floats 0..255."""
    if image.mode.startswith("I;16") or (image.mode == "I" and file_format in ("PNG", "PPM")):
        return Image.fromarray(np.asarray(image, np.float32) * (WHITE / WHITE_16))
    if image.mode in ("I", "F"):
        raise InputError("32 bits per pixel and channel do not say what is white; save it with 8 or 16")
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        black = Image.new("RGBA", image.size, "black")
        image = Image.alpha_composite(black, image.convert("RGBA"))
    return image.convert(mode)


def shown_image(path: Path, most: int) -> Image.Image:
    """One file in grey or RGB as a person sees it, in its own proportions, with at most `most` pixels per side."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=FORMATS) as image:
                image.draft("RGB", (most, most))  # JPEG files can be read smaller
                plain = _plain(ImageOps.exif_transpose(image), "RGB", image.format)
    except InputError:
        raise
    except Exception as error:  # Pillow raises errors of many types on broken files
        raise InputError(f"{path}: cannot be read as an image ({one_line(error)})") from None
    plain.thumbnail((most, most))
    return plain.convert("RGB")


@dataclass(frozen=True, kw_only=True)
class LabeledImages:
    """Images with the names of their classes, and an error line for each file that could not be read."""

    pixels: NDArray[np.uint8]  # (rows, height, width), or (rows, height, width, 3) if some images have colour
    labels: list[str]  # "": unlabeled
    files: list[str]  # relative to the folder
    broken: list[str]


def read_class_folders(
    folder: Path, size: tuple[int, int], *, unlabeled: str = "unlabeled", flat: bool = False
) -> LabeledImages:
    """Read a folder with one subfolder of images per class. Images in the subfolder `unlabeled` have no class.

    `flat`: the images may lie in the folder itself; then they have no class.
    """
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    if not inside and flat:
        inside, unlabeled = [folder], folder.name
    if not inside:
        raise InputError(f"{folder}: has no subfolders; give one of image files for each class, named after it")
    parts: list[NDArray[np.uint8]] = []
    labels: list[str] = []
    names: list[str] = []
    broken: list[str] = []
    for path in inside:
        files = files_in(path)
        images = read_images(files, (3, *size))
        if not images.paths:
            raise InputError(f"{path}: none of its {len(files)} image files can be read ({images.broken[0]})")
        parts.append(np.round(images.unit.transpose(0, 2, 3, 1) * WHITE).astype(np.uint8))
        labels += ["" if path.name == unlabeled else path.name] * len(images.paths)
        names += [file.relative_to(folder).as_posix() for file in images.paths]
        broken += images.broken
    pixels = np.concatenate(parts)
    grey = bool((pixels == pixels[..., :1]).all())
    return LabeledImages(pixels=pixels[..., 0].copy() if grey else pixels, labels=labels, files=names, broken=broken)
