"""The command `mmdgm app`."""

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from mmdgm.cli.common import Device, Json, Labels, err, out, path, print_json
from mmdgm.errors import InputError
from mmdgm.experiments.reports import read_run, rows_of
from mmdgm.experiments.run_folder import RunFolder


def app(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN or DATA]", parser=path, help="The folder of a finished run, or data to label."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Play with a model of digits, which is trained first.")] = False,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Default: any free port.")] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser, or only print its address.")
    ] = True,
    labels: Labels = None,
    target: Annotated[str | None, typer.Option(help="Of a table to label: the column with labels, if any.")] = None,
    unlabeled: Annotated[
        str | None, typer.Option(metavar="MARK", help="What unlabeled rows have for a label, as in `mmdgm fit`.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="HxW", help="Of a folder to label: what models see [default: 32x32].")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Open a page in the browser: play with a trained model, or label data.

    A RUN opens *Play*: draw an image or edit a table's row, erase a part, and see it classified and completed. DATA (a
    folder of images, an npz file or a table) opens *Label*. The page is for this computer alone: its address holds a
    token, and it sends nothing to other computers. Ctrl-C ends it.

    Example: `mmdgm app runs/demo/seed-0 --port 8080 --no-browser`
    """
    if (source is None) != demo:
        raise InputError("give the folder of a run, or data to label, or --demo")
    if not all(map(find_spec, ("starlette", "uvicorn"))):
        raise InputError("the page needs starlette and uvicorn: pip install 'mmdgm[app]'")
    from mmdgm.app.demo import demo_run
    from mmdgm.app.server import serve

    def tell(address: str) -> None:
        if as_json:
            print_json({"address": address})
        else:
            out.print(address, markup=False, highlight=False, soft_wrap=True)
        out.file.flush()

    options = {"target": target, "unlabeled": unlabeled, "size": size}
    if source is not None and not is_run(source):
        from mmdgm.app.label import label_site
        from mmdgm.cli.labeling import labeling

        with labeling(source, labels, options) as session:
            serve(label_site(session), port=port, browser=browser, tell=tell)
        return
    if given := [name for name, value in {"labels": labels, **options}.items() if value is not None]:
        raise InputError(f"--{given[0]} is for data to label, not for a run")
    site = play(demo_run(err, device=device) if source is None else source, device)
    serve(site, port=port, browser=browser, tell=tell)


def play(folder: Path, device: str) -> Any:
    """Return the site of a run, with rows of its data as examples if they are still at hand."""
    from mmdgm.app.play import play_site

    run, rows = read_run(folder, device=device), None
    with suppress(InputError):
        rows = rows_of(run, folder)
    return play_site(run.estimator, name=run.name, rows=None if rows is None else rows.x)


def is_run(source: Path) -> bool:
    """Whether a folder holds a trained model, or several of them."""
    return RunFolder(source).config.exists() or any(source.glob("seed-*/config.json"))
