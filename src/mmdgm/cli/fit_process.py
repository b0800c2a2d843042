"""`mmdgm fit` as a child of a page: it saves a checkpoint and ends when its standard input ends, as the page does."""

import os
import signal
import threading

from mmdgm.cli import main


def end_with_the_page() -> None:
    """Wait until standard input ends, then raise SIGTERM, after which `mmdgm fit` saves a checkpoint."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_page, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)  # the page comes first
    main()
