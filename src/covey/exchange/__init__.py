"""Parts: how the shared rows of peers meet."""

from covey.exchange.compressed import Compressed
from covey.exchange.compressed_push import CompressedPush
from covey.exchange.exchange import Exchange
from covey.exchange.feedback import ErrorFeedback
from covey.exchange.gossip import Gossip
from covey.exchange.pushsum import PushSum

__all__ = ["Compressed", "CompressedPush", "ErrorFeedback", "Exchange", "Gossip", "PushSum"]
