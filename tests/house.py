"""One page on the package, from its code: `make house` prints it. `test_architecture` asks for its rules."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "mmdgm"
# the flow of data: a folder imports from those above it, and from the files at the package's root
FOLDERS = (
    "data",
    "networks",
    "models",
    "propagation",
    "training",
    "inference",
    "estimators",
    "report",
    "experiments",
    "app",
    "cli",
)
DOORS = {"__init__.py", "__main__.py"}  # at the root: they open all rooms
LINES, FUNCTION_LINES, PARAMETERS = 350, 60, 8


def modules() -> list[Path]:
    """All modules, the root's first, then folder by folder in the order of the flow."""
    return [
        *sorted(SOURCE.glob("*.py")),
        *(path for name in FOLDERS for path in sorted((SOURCE / name).rglob("*.py"))),
    ]


def imports_against_the_flow(path: Path) -> list[str]:
    """Folders that a module imports from, at its top or inside a function, though they come after its own."""
    parts = path.relative_to(SOURCE).parts
    if len(parts) == 1 and path.name in DOORS:
        return []
    place = FOLDERS.index(parts[0]) if len(parts) > 1 else -1
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "mmdgm":
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mmdgm."):
            found.append(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found += [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("mmdgm.")]
    return [name for name in found if name in FOLDERS and FOLDERS.index(name) > place]


def too_large(path: Path) -> list[str]:
    """What in a module is longer, or takes more, than it should; scikit-learn's `__init__`s are let be."""
    text = path.read_text()
    found = [f"{len(text.splitlines())} lines"] if len(text.splitlines()) > LINES else []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef) or (node.name == "__init__" and path.parent.name == "estimators"):
            continue
        lines, arguments = node.end_lineno - node.lineno + 1, node.args
        parameters = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
        own = parameters - (bool(arguments.args) and arguments.args[0].arg in ("self", "cls"))
        # a command's parameters are its options: Typer wants them so
        command = path.parent.name == "cli" and "Example:" in (ast.get_docstring(node) or "")
        if (lines > FUNCTION_LINES or own > PARAMETERS) and not command:
            found.append(f"{node.name}: {lines} lines, {own} parameters")
    return found


def page() -> str:
    """Folders in order, files with their first docstring line, lines of code, and the count of wrong imports."""
    lines, total, wrong, folder = [], 0, 0, None
    for path in modules():
        inside = path.relative_to(SOURCE)
        if inside.parts[0] != folder and len(inside.parts) > 1:
            folder = inside.parts[0]
            lines.append(f"\n{folder}/")
        text = path.read_text()
        count, wrong = len(text.splitlines()), wrong + len(imports_against_the_flow(path))
        total += count
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        lines.append(f"  {count:4}  {inside.name if len(inside.parts) < 3 else Path(*inside.parts[1:])!s:26} {first}")
    return "\n".join(["mmdgm/", *lines, "", f"{total:,} lines; imports against the flow: {wrong}"])


if __name__ == "__main__":
    print(page())
