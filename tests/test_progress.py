"""metrics.csv to the last bit and cut off anywhere; the progress lines."""

import io
import math

import pytest
from rich.console import Console

from mmdgm.progress import Display, MetricsFile, Record, read_metrics


def record(step, **changes):
    values = {
        "stage": "train",
        "step": step,
        "total_steps": 40,
        "epoch": step / 10,
        "total_epochs": 4,
        "learning_rate": 1e-3 / 3,
        "metrics": {"loss": 1 / step, "kl": -1e-20 * step},
        "images_per_second": 12345.678,
        "seconds": step / 3,
    }
    return Record(**{**values, **changes})


def write(path, steps=(10, 20, 30)):
    metrics = MetricsFile(path)
    for step in steps:
        metrics(record(step))


def test_metrics_are_read_as_they_were(tmp_path):
    write(tmp_path / "metrics.csv")
    assert read_metrics(tmp_path / "metrics.csv") == [
        {
            "stage": "train",
            "step": step,
            "epoch": step / 10,
            "learning_rate": 1e-3 / 3,
            "loss": 1 / step,
            "kl": -1e-20 * step,
            "images_per_second": 12345.7,
            "seconds": round(step / 3, 3),
        }
        for step in (10, 20, 30)
    ]


@pytest.mark.parametrize("value", [0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1e22, -0.0, math.inf, math.nan])
def test_floats_keep_every_bit(tmp_path, value):
    MetricsFile(tmp_path / "metrics.csv")(record(1, metrics={"loss": value}))
    (row,) = read_metrics(tmp_path / "metrics.csv")
    assert repr(row["loss"]) == repr(value)
    assert type(row["step"]) is int


def test_a_new_run_forgets_the_old_metrics(tmp_path):
    write(tmp_path / "metrics.csv")
    MetricsFile(tmp_path / "metrics.csv")
    assert read_metrics(tmp_path / "metrics.csv") == []
    assert read_metrics(tmp_path / "absent.csv") == []


@pytest.mark.parametrize(("keep", "kept_lines"), [(20, 3), (29, 3), (30, 4), (99, 4)])
def test_a_resumed_run_keeps_the_rows_up_to_its_checkpoint_as_they_were(tmp_path, keep, kept_lines):
    path = tmp_path / "metrics.csv"
    write(path)
    before = path.read_text().splitlines()
    metrics = MetricsFile(path, keep_steps=keep)
    assert path.read_text().splitlines() == before[:kept_lines]
    metrics(record(40))
    assert [row["step"] for row in read_metrics(path)] == [*[10, 20, 30][: kept_lines - 1], 40]
    assert path.read_text().count("stage") == 1


def test_a_run_resumed_before_its_first_row_starts_with_a_header(tmp_path):
    path = tmp_path / "metrics.csv"
    write(path)
    MetricsFile(path, keep_steps=5)(record(10))
    assert [row["step"] for row in read_metrics(path)] == [10]


def test_a_half_written_last_line_is_left_out_wherever_it_ends(tmp_path):
    path = tmp_path / "metrics.csv"
    write(path)
    content = path.read_bytes()
    whole = content[: content.rstrip().rfind(b"\n") + 1]
    for end in range(len(whole), len(content)):
        path.write_bytes(content[:end])
        assert [row["step"] for row in read_metrics(path)] == [10, 20], f"the last line is {content[len(whole) : end]}"
        MetricsFile(path, keep_steps=30)
        assert path.read_bytes() == whole


def shown(*records, terminal=False, **options):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200)
    with Display("a run", console, **options) as display:
        for each in records:
            display(each)
    return console.file.getvalue()


def test_a_console_that_is_no_terminal_gets_plain_lines():
    # 20 of 40 steps took 5 s, so the other 20 take 5 s more
    middle = record(20, seconds=5.0, metrics={"loss": 123.456789, "kl": 2e-7})
    assert shown(middle, seconds_between_lines=0) == (
        "a run train  epoch 2/4  step 20/40  12,346 img/s  5 s left  loss 123.5  kl 2e-07\n"
    )


def test_lines_are_rare_but_the_last_record_is_always_shown():
    lines = shown(record(10), record(20), record(40), seconds_between_lines=1e9).splitlines()
    assert len(lines) == 1
    assert "epoch 4/4  step 40/40" in lines[0]
    assert len(shown(record(10), record(20), record(40), seconds_between_lines=0).splitlines()) == 3


def test_a_long_line_is_not_wrapped():
    metrics = {f"term_{k}": 0.123 for k in range(40)}
    assert shown(record(40, metrics=metrics)).count("\n") == 1


def test_a_terminal_gets_a_bar():
    text = shown(record(20), record(40), terminal=True)
    assert "a run train" in text
    assert "40/40" in text
    assert "epoch 4/4" in text
