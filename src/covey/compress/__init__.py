"""What peers say, made short: compressors, the messages that they make, and the bytes of those."""

from covey.compress.compressor import Compressor, Whole
from covey.compress.dense import QSGD, Identity, Sign
from covey.compress.message import Message, Sparse
from covey.compress.sparse import QTopK, RandK, SignTopK, TopK

__all__ = [
    "QSGD",
    "Compressor",
    "Identity",
    "Message",
    "QTopK",
    "RandK",
    "Sign",
    "SignTopK",
    "Sparse",
    "TopK",
    "Whole",
]
