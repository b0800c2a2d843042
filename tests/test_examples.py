"""The examples run; few_labels.py is the demo, whose floor test_end_to_end.py keeps."""

import importlib.util
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_own_model_learns_the_digits():
    specification = importlib.util.spec_from_file_location("own_model", EXAMPLES / "own_model.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert module.main() < 6
