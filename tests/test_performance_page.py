"""docs/performance.md shows what results/bench holds."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text()


def bench(name):
    return json.loads((ROOT / "results" / "bench" / f"{name}.json").read_text())


def cells(line_start):
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {line_start} |"))
    return [cell.strip().replace(",", "") for cell in line.strip("|").split("|")][1:]


def test_gpu_table_is_the_committed_run():
    report = bench("h200")
    measured = report["measurements"]
    names = {
        "MMVA": "mmva/bf16",
        "Conv-MMVA": "conv-mmva/bf16",
        "Conv-MMCVA": "conv-mmcva/bf16",
        "Conv-MMCVA, naive: literal layers, eager float32, data on the device": "conv-mmcva/naive",
        "Conv-MMCVA, naive, with a DataLoader": "conv-mmcva/naive-dataloader",
    }
    for line_start, name in names.items():
        _, milliseconds, images_per_second, *_ = cells(line_start)
        assert milliseconds == f"{measured[f'step/{name}']['value']:.2f}"
        assert float(images_per_second) == measured[f"train/{name}"]["value"]
    assert cells("Conv-MMCVA")[3] == f"{report['ratios']['conv-mmcva/bf16/naive']:.1f}"


def test_cpu_tables_are_the_committed_run():
    report = bench("cpu-2-cores")
    measured, ratios = report["measurements"], report["ratios"]
    for line_start, name in {
        "ours, float32, compiled": "fp32-compiled",
        "ours, bf16-mixed, compiled": "bf16-compiled",
        "pythae 0.1.2": "pythae",
        "Pyro 1.9.2": "pyro",
    }.items():
        images_per_second, ratio, bound = cells(line_start)
        assert float(images_per_second) == measured[f"train/mlp-vae/{name}"]["value"]
        assert bound == f"{measured[f'bound/mlp-vae/{name}']['value']:.1f}".replace("-", "−")
        if name.endswith("compiled"):
            assert ratio == f"{ratios[f'mlp-vae/{name}/pythae']:.2f}"
    for line_start, kind in {"ours, 20 + 100 rows": "ours", "marginalising, 1 + 7 rows": "m2"}.items():
        assert cells(line_start) == [f"{measured[f'classes/{kind}-{k}']['value']:.0f}" for k in (10, 100, 1000)]


def test_counted_work_is_the_committed_run():
    gflop = float(re.search(r"`mnist-mmva`\) \| 200 \| [\d.]+ M \| ([\d.]+)", PAGE).group(1))
    assert abs(gflop / bench("cpu-2-cores")["measurements"]["flops/mmva"]["value"] - 1) < 0.01
