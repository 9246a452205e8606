"""Data of peers: named sets, arrays, Datasets; divided among peers, or as the peers bring them."""

from covey.data.federate import federate, from_dataset, from_huggingface, from_peers
from covey.data.samples import Federated, Samples
from covey.data.sources import NAMES, load, load_own
from covey.data.transform import Images, Tokens
from covey.data.unseen import unseen

__all__ = [
    "NAMES",
    "Federated",
    "Images",
    "Samples",
    "Tokens",
    "federate",
    "from_dataset",
    "from_huggingface",
    "from_peers",
    "load",
    "load_own",
    "unseen",
]
