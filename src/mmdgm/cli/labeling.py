"""What `mmdgm app DATA` opens: a labeling of the user's data, into the file that `mmdgm suggest` writes too."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmdgm.app.label_session import LabelSession
from mmdgm.cli.common import say, with_ending
from mmdgm.data.labeled_files import read_data


@contextmanager
def labeling(data: Path, labels: Path | None, options: dict[str, Any]) -> Iterator[LabelSession]:
    """A labeling of DATA, into the CSV file LABELS; by default that of `mmdgm suggest`."""
    own = read_data(data, **options, any_labels=True)
    say(own.notes)
    name = data.resolve().name if data.is_dir() else data.stem
    file = with_ending(labels or data.resolve().parent / f"{name}-labels.csv", ".csv")
    fit = [f"--{name}={value}" for name, value in options.items() if value is not None]
    session = LabelSession(own, file, [*fit, str(data.resolve())])
    say(session.store.notes)
    try:
        yield session
    finally:
        session.close()
