"""Run the notebooks of this folder, and store what their cells print and show. It needs no Jupyter.

`make notebooks` runs it. Every code cell runs in one namespace, as in a kernel. A cell's outputs are its printed text,
its matplotlib figures, and the value of its last expression.
"""

import ast
import base64
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

FOLDER = Path(__file__).parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

Cell = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """Return a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def run(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a notebook with the outputs of its cells, and the names that they leave behind.

    The cells run in an empty folder, and may write into it.
    """
    notebook, names = read(path), {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(code, 1):
            cell["execution_count"] = number
            cell["outputs"] = outputs("".join(cell["source"]), names, number, f"{path.name}, cell {number}")
    return notebook, names


def outputs(source: str, names: dict[str, Any], number: int, place: str) -> list[Cell]:
    """Run the code of a cell; return its outputs as a notebook stores them."""
    tree, value, printed = ast.parse(source), None, io.StringIO()
    shown = tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = tree.body.pop() if shown else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, place, "exec"), names)  # noqa: S102 - the notebooks are ours
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), names)  # noqa: S307 - as above
    found: list[Cell] = []
    if text := printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": lines(text)})
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        data = {"image/png": png(figure), "text/plain": "<Figure>"}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    pyplot.close("all")
    if value is not None:
        data = {kind: lines(content) for kind, content in bundle(value).items()}
        found.append({"output_type": "execute_result", "execution_count": number, "data": data, "metadata": {}})
    return found


def bundle(value: Any) -> dict[str, str]:
    """Return a value as a notebook shows it."""
    if hasattr(value, "_repr_mimebundle_"):
        return dict(value._repr_mimebundle_())
    html = value._repr_html_() if hasattr(value, "_repr_html_") else None
    return {"text/plain": repr(value)} | ({"text/html": html} if html else {})


def png(figure: Any) -> str:
    """Return a figure as base64."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=80, bbox_inches="tight")
    return base64.b64encode(content.getvalue()).decode()


def lines(text: str) -> list[str]:
    """Return text as the list of lines in which notebooks store it."""
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    for path in NOTEBOOKS:
        notebook, _ = run(path)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
