"""Parts: how the shared rows of peers meet."""

from covey.exchange.compressed import Compressed
from covey.exchange.compressed_push import CompressedPush
from covey.exchange.copies import Copies
from covey.exchange.exchange import Exchange
from covey.exchange.feedback import ErrorFeedback
from covey.exchange.gossip import Gossip
from covey.exchange.pushsum import PushSum

__all__ = ["Compressed", "CompressedPush", "Copies", "ErrorFeedback", "Exchange", "Gossip", "PushSum"]
