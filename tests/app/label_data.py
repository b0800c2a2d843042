"""Digits to label: as files, as an array, and the servers and browsers that label them."""

import json

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from mmdgm.app.label_session import LabelSession
from mmdgm.data.labeled_files import read_data
from tests.app.test_guard import ask


def write_digits(folder, n=1797):
    """Digits as PNG files of 8×8 pixels; returns their classes."""
    folder.mkdir()
    digits = load_digits()
    for i, image in enumerate(digits.images[:n]):
        Image.fromarray(np.round(image * 255 / 16).astype(np.uint8)).save(folder / f"{i:04}.png")
    return digits.target[:n].astype(str)


def session_of(data, labels=None, **options):
    file = labels or data.parent / f"{data.stem}-labels.csv"
    fit = [f"--{name}={value}" for name, value in options.items()]
    return LabelSession(read_data(data, any_labels=True, **options), file, [*fit, str(data)])


def post(server, path, **body):
    """(status, answer) of a POST."""
    status, _, content = ask(server, "POST", path, json.dumps(body).encode())
    return status, json.loads(content)


def get(server, path):
    """(status, headers, content) of a GET."""
    return ask(server, path=path)
