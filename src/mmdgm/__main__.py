"""Entry point of `python -m mmdgm`, which runs the command `mmdgm` without an installed script."""

from mmdgm.cli import main

main()
