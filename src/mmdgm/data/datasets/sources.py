"""Addresses, sizes and SHA-256 hashes of the official files.

They are those of TensorFlow Datasets (github.com/tensorflow/datasets, folder
tensorflow_datasets/url_checksums: mnist.txt at commit 31f1255e, fashion_mnist.txt, svhn_cropped.txt and
smallnorb.txt at commit 333639b3).
"""

from dataclasses import dataclass

from mmdgm.errors import InputError


@dataclass(frozen=True)
class Source:
    """A remote file: its name in the data set's folder, its address, its length in bytes, its SHA-256."""

    name: str
    url: str
    length: int
    sha256: str


def _files(base: str, *files: tuple[str, int, str]) -> tuple[Source, ...]:
    return tuple(Source(name, f"{base}/{name}", length, sha256) for name, length, sha256 in files)


MNIST = _files(
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    ("train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    ("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    ("t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    ("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)
FASHION = _files(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    ("train-images-idx3-ubyte.gz", 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
    ("train-labels-idx1-ubyte.gz", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
    ("t10k-images-idx3-ubyte.gz", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
    ("t10k-labels-idx1-ubyte.gz", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
)
SVHN = _files(
    "http://ufldl.stanford.edu/housenumbers",
    ("train_32x32.mat", 182_040_794, "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"),
    ("test_32x32.mat", 64_275_384, "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
    ("extra_32x32.mat", 1_329_278_602, "a133a4beb38a00fcdda90c9489e0c04f900b660ce8a316a5e854838379a71eb3"),
)
NORB = _files(
    "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small",
    (
        "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat.gz",
        131_896_188,
        "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873",
    ),
    (
        "smallnorb-5x46789x9x18x6x2x96x96-training-cat.mat.gz",
        348,
        "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa",
    ),
    (
        "smallnorb-5x46789x9x18x6x2x96x96-training-info.mat.gz",
        71_052,
        "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32",
    ),
    (
        "smallnorb-5x01235x9x18x6x2x96x96-testing-dat.mat.gz",
        130_799_817,
        "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474",
    ),
    (
        "smallnorb-5x01235x9x18x6x2x96x96-testing-cat.mat.gz",
        347,
        "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff",
    ),
)
SOURCES: dict[str, tuple[Source, ...]] = {
    "digits": (),
    "mnist": MNIST,
    "fashion": FASHION,
    "svhn": SVHN[:2],
    "norb": NORB,
}
EXTRA = SVHN[2:]  # load("svhn", extra=True) also reads this file


def sources_of(name: str, *, extra: bool = False) -> tuple[Source, ...]:
    """The files of a data set. An embedded data set has none."""
    if name not in SOURCES:
        raise InputError(f"there is no data set {name!r}; there are: {', '.join(SOURCES)}")
    if extra and name != "svhn":
        raise InputError(f"{name} has no extra rows; only svhn has")
    return SOURCES[name] + (EXTRA if extra else ())
