"""Generated tables, labels, images and files, and what estimators and readers make of them.

What is said of one is "result" (of the right shape, and finite) or "refused" (ValueError of one line). Everything
else is an error and is raised. `outcomes` runs as many examples as wanted; the tests run few of them.
"""

import contextlib
import datetime
import io
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.faults import SURVIVED
from mmdgm import MaxMarginImputer, MMCVAClassifier, MMVAClassifier
from mmdgm.data.datasets.idx import read_idx
from mmdgm.data.datasets.mat import read_arrays
from mmdgm.data.labeled_files import read_data
from mmdgm.data.npz import read_only_array
from mmdgm.errors import InputError, TrainingStopped

FAULT = "generated input"
FITS, FILES = 500, 4_000  # examples of each kind
FIT: dict[str, Any] = {"hidden": (4,), "z": 2, "max_epochs": 1, "random_state": 0, "device": "cpu"}
NUMBERS = st.one_of(
    st.floats(-10, 10),
    st.integers(-3, 300),
    st.sampled_from([0.0, -0.0, 1e-300, 1e300, -1e308, 5e-324, 2**63, 10**400, np.inf, -np.inf, np.nan]),
)
TEXTS = [None, "", " ", "?", "a", "b", "1", "1e5", "nan", b"x", b"\xff", True, False, np.bool_(True), np.float16(2)]
OBJECTS = [pandas.NA, pandas.NaT, datetime.date(2026, 1, 1), 1j, [1], {1: 2}, (), object, np.arange(2)]
OTHERS = st.sampled_from([*TEXTS, *OBJECTS, np.datetime64("NaT")])


@st.composite
def columns(draw: Any, rows: int) -> list[Any]:
    """A column: of one kind of cells, constant, or with a few cells of another kind."""
    kind = draw(st.sampled_from(["plain", "wild", "constant", "words", "spoilt"]))
    if kind == "constant":
        return [draw(st.one_of(NUMBERS, OTHERS))] * rows
    of_kind = {"plain": st.floats(-5, 5), "wild": NUMBERS, "words": st.sampled_from(["a", "b", "", None])}
    cells = draw(st.lists(of_kind.get(kind, st.floats(-5, 5)), min_size=rows, max_size=rows))
    if kind == "spoilt":
        cells[draw(st.integers(0, rows - 1))] = draw(OTHERS)
    return list(cells)


@st.composite
def tables(draw: Any) -> Any:
    """A table as an array of objects or floats, a masked array, a list, or a data frame."""
    rows = draw(st.integers(2, 12))
    cells = [draw(columns(rows)) for _ in range(draw(st.integers(1, 4)))]
    array = np.empty((rows, len(cells)), object)
    for j, column in enumerate(cells):
        for i, cell in enumerate(column):
            array[i, j] = cell
    form = draw(st.sampled_from(["objects", "floats", "masked", "list", "frame", "text", "dates"]))
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if form == "floats":
            return array.astype(np.float64)
        if form == "masked":
            return np.ma.masked_array(array.astype(np.float64), mask=np.indices(array.shape).sum(axis=0) % 3 == 1)
        if form == "list":
            return array.tolist()
        if form == "frame":
            return pandas.DataFrame(dict(enumerate(array.T.tolist()))).rename(columns=str)
        if form == "text":
            return array.astype(str)
        if form == "dates":
            return np.full(array.shape, "NaT", "M8[s]")
    return array


@st.composite
def images(draw: Any) -> Any:
    """Images of many types and sizes."""
    shape = (draw(st.integers(2, 6)), *draw(st.sampled_from([(4, 4), (8, 8), (1, 9), (8, 8, 3), (0, 4), (5, 5, 2)])))
    x = np.random.default_rng(draw(st.integers(0, 99))).random(shape) * draw(st.sampled_from([0, 1, 16, 255, 1e300]))
    if draw(st.booleans()) and x.size:
        x.ravel()[draw(st.integers(0, x.size - 1))] = draw(st.sampled_from([np.nan, np.inf, -1e308]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x.astype(draw(st.sampled_from(["f8", "f4", "f2", "u1", "?", "i2", "u8", "O", "c8", "M8[s]", "U9"])))


def labels(rows: int) -> st.SearchStrategy[Any]:
    """Labels, mostly of two classes."""
    plain = st.lists(st.sampled_from([0, 1, -1]), min_size=rows, max_size=rows)
    wild = st.lists(st.one_of(NUMBERS, OTHERS), min_size=rows, max_size=rows)
    forms = st.sampled_from([list, np.array, lambda y: np.array([str(v) for v in y]), lambda y: pandas.Series(y)])
    return st.one_of(plain, plain, wild).flatmap(lambda y: forms.map(lambda form: _formed(form, y)))


def _formed(form: Callable[[Any], Any], y: list[Any]) -> Any:
    try:
        return form(y)
    except (TypeError, ValueError, OverflowError):
        return y


# --- what is done with them -----------------------------------------------------------------------------------


def outcome(act: Callable[[], None]) -> str:
    """Return "result" or "refused"; raise anything else."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            act()
        except (ValueError, TrainingStopped) as error:
            ours = isinstance(error, InputError | TrainingStopped)  # scikit-learn's own checks say more
            return "several lines" if ours and "\n" in str(error) else "refused"
    return "result"


def check_classifier(kind: Any, X: Any, y: Any) -> str:
    """Fit a classifier, and look at its predictions."""

    def act() -> None:
        model = kind(**FIT).fit(X, y)
        n = len(X)
        assert model.predict(X).shape == (n,)
        scores = model.decision_function(X)
        assert len(scores) == n
        assert np.isfinite(scores).all()

    return outcome(act)


def check_imputer(X: Any) -> str:
    """Fit an imputer, and look for what is still missing."""

    def act() -> None:
        filled = MaxMarginImputer(max_epochs=1, n_iter=2, random_state=0, device="cpu").fit(X).transform(X)
        assert np.shape(filled) == np.shape(X)
        assert not pandas.isna(np.asarray(filled, object)).any()

    return outcome(act)


def check_file(name: str, content: bytes, read: Callable[[Path], Any]) -> str:
    """Write a file and read it."""

    def act() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            read(path)

    return outcome(act)


def npz(x: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, x=x, y=np.arange(len(x)) % 2)
    return file.getvalue()


def mat(values: Any) -> bytes:
    """A MATLAB v5 file with one packed array x of bytes."""

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack("<2I", kind, len(data)) + data + bytes(-len(data) % 8)

    parts = element(6, struct.pack("<2I", 9, 0)) + element(5, struct.pack("<2i", *values.shape)) + element(1, b"x")
    packed = zlib.compress(element(14, parts + element(2, values.tobytes(order="F"))))
    return b" " * 124 + b"\x00\x01IM" + struct.pack("<2I", 15, len(packed)) + packed


CONTENTS: dict[str, bytes] = {
    "x.csv": b"a,b,label\n1,x,u\n2,,v\n3,y,u\n4,x,v\n",
    "x.npz": npz(np.arange(24.0).reshape(6, 4)),
    "x.idx": bytes([0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 4]) + bytes(range(12)),
    "x.mat": mat(np.arange(12, dtype=np.uint8).reshape(3, 4)),
}
READERS: dict[str, Callable[[Path], Any]] = {
    "x.csv": lambda path: read_data(path, target="label").counts(),
    "x.npz": read_only_array,
    "x.idx": lambda path: read_idx(path, (3, 4)),
    "x.mat": lambda path: read_arrays(path, {"x": (3, 4)}),
}


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """A file's content with some bytes changed, cut off, or put in."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(len(changed) - 1, 0)))
        kind = draw(st.sampled_from(["byte", "cut", "insert"]))
        if kind == "byte" and changed:
            changed[place] = draw(st.integers(0, 255))
        elif kind == "cut":
            del changed[place:]
        else:
            changed[place:place] = draw(st.binary(max_size=9))
    return bytes(changed)


def _text_files() -> st.SearchStrategy[bytes]:
    cell = st.sampled_from(
        ["1", "-2.5", "", "x", '"', "\x00", ",", "1e999", "nan", "inf", "=1+1", "ü", "\r", "'", "-"]
    )
    whole = st.tuples(cell, st.sampled_from(["1", "2.5", ""]), st.sampled_from(["u", "v", ""])).map(",".join)
    row = st.one_of(whole, whole, whole, st.lists(cell, min_size=1, max_size=4).map(",".join))
    return st.lists(row, max_size=5).map(lambda rows: ("a,b,label\n" + "\n".join(rows)).encode())


WITH_LABELS = tables().flatmap(lambda X: st.tuples(st.just(X), labels(len(X))))
IMAGES_WITH_LABELS = images().flatmap(lambda X: st.tuples(st.just(X), labels(len(X))))
# by name: a strategy of arguments, and the check that takes them
CHECKS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], str]]] = {
    "MMVA on tables": (WITH_LABELS, lambda rows: check_classifier(MMVAClassifier, *rows)),
    "MMCVA on tables": (WITH_LABELS, lambda rows: check_classifier(MMCVAClassifier, *rows)),
    "MMVA on images": (IMAGES_WITH_LABELS, lambda rows: check_classifier(MMVAClassifier, *rows)),
    "imputer on tables": (tables(), check_imputer),
    "generated csv": (_text_files(), lambda text: check_file("x.csv", text, READERS["x.csv"])),
    **{
        f"damaged {name}": (damaged(content), lambda text, name=name: check_file(name, text, READERS[name]))
        for name, content in CONTENTS.items()
    },
}


def outcomes(name: str, examples: int, *, start: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (description, outcome) of generated inputs: result, refused, or the line of an unexpected error."""
    strategy, check = CHECKS[name]
    found: list[tuple[str, str]] = []

    @seed(start)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(value: Any) -> None:
        try:
            said = check(value)
        except Exception as error:
            said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        found.append((f"{name}: {value!r}", said))

    one()
    yield from found


def attacks(_folder: Path, share: float) -> Iterator[tuple[str, str]]:
    """Yield generated inputs for estimators and readers. Both a result and one line are right."""
    for name in CHECKS:
        trains = name.split()[0] not in ("damaged", "generated")
        for description, said in outcomes(name, max(1, round(share * (FITS if trains else FILES)))):
            yield description, SURVIVED if said in ("result", "refused") else said
