"""Downloads of a labeling: guesses and labels as CSV, the trained model as a folder, the classifier as ONNX."""

import io
import zipfile
from pathlib import Path
from typing import NamedTuple

from mmdgm.app.label_session import LabelSession
from mmdgm.data.label_files import FILE, LABEL, ROW, label_file
from mmdgm.data.table_files import csv_bytes, number_text
from mmdgm.errors import InputError
from mmdgm.files import read_whole

MODEL = ("config.json", "model.safetensors", "result.json", "metrics.csv", "report.html", "labels.csv")  # and figures


class Export(NamedTuple):
    """A file to download."""

    name: str
    media_type: str
    content: bytes


def export(session: LabelSession, name: str) -> Export:
    """Return one of labels.csv, predictions.csv, model.zip and classifier.onnx."""
    if name == "labels.csv":
        return Export(name, "text/csv", label_file(session.store.labels(), [], session.data.files, {}))
    if name == "predictions.csv":
        return Export(name, "text/csv", predictions(session))
    if name == "model.zip":
        return Export(name, "application/zip", model_folder(session))
    if name == "classifier.onnx":
        return Export(name, "application/octet-stream", onnx_file(session))
    raise InputError(f"{name}: there is no such file")


def predictions(session: LabelSession) -> bytes:
    """Return a CSV file with a line per row: its label if it has one, the guess, and the lead of the guess."""
    guesses, labels, files = session.guesses, session.store.labels(), session.data.files
    if not guesses.classes:
        raise InputError("there are no predictions yet; label some rows first")
    lines = []
    for row in range(len(session.views)):
        name = [] if files is None else [files[row]]
        guess = guesses.of(row)
        lead = "" if guess is None else number_text(float(guesses.lead[row]))
        lines.append([str(row), *name, labels.get(row, ""), labels.get(row, guess or ""), guess or "", lead])
    header = [ROW, *([] if files is None else [FILE]), LABEL, "class", "prediction", "lead"]
    return csv_bytes(header, lines)


def model_folder(session: LabelSession) -> bytes:
    """Return the newest finished run as a zip file, which `mmdgm.load` reads when it is unpacked."""
    run = _trained(session)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [*(run / name for name in MODEL), *sorted((run / "figures").glob("*.png"))]:
            if path.is_file():
                archive.writestr(f"model/{path.relative_to(run).as_posix()}", read_whole(path))
    return content.getvalue()


def onnx_file(session: LabelSession) -> bytes:
    """Return the classifier of the newest finished run as ONNX."""
    from mmdgm.estimators.onnx_file import export_onnx

    run = _trained(session)
    assert session.classifier is not None
    export_onnx(session.classifier, run / "classifier.onnx")
    return read_whole(run / "classifier.onnx")


def _trained(session: LabelSession) -> Path:
    if session.classifier is None:
        raise InputError("no classifier is trained yet")
    return session.training.runs / str(session.loaded)
