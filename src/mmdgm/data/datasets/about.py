"""Facts about each data set that are known before it is read."""

from dataclasses import dataclass

from mmdgm.data.datasets import idx, norb, svhn


@dataclass(frozen=True, kw_only=True)
class About:
    """A data set's title, its numbers of rows and classes, and an image's shape (channels, height, width)."""

    title: str
    train: int
    test: int
    shape: tuple[int, int, int]
    classes: int


ABOUT = {
    "digits": About(title="digits, part of scikit-learn", train=1_297, test=500, shape=(1, 8, 8), classes=10),
    "mnist": About(title="digits", train=idx.ROWS["train"], test=idx.ROWS["t10k"], shape=(1, 28, 28), classes=10),
    "fashion": About(
        title="Fashion-MNIST: clothes",
        train=idx.ROWS["train"],
        test=idx.ROWS["t10k"],
        shape=(1, 28, 28),
        classes=10,
    ),
    "svhn": About(
        title=f"house numbers, cropped; {svhn.ROWS['extra']:,} more with --extra",
        train=svhn.ROWS["train"],
        test=svhn.ROWS["test"],
        shape=(3, 32, 32),
        classes=10,
    ),
    "norb": About(
        title="small NORB: toys, left camera", train=norb.ROWS, test=norb.ROWS, shape=(1, 32, 32), classes=5
    ),
}
