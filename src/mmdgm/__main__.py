"""`python -m mmdgm`: the command `mmdgm` without an installed script."""

from mmdgm.cli import main

main()
