"""Parts: how the shared rows of peers meet."""

from covey.exchange.exchange import Exchange
from covey.exchange.gossip import Gossip
from covey.exchange.pushsum import PushSum

__all__ = ["Exchange", "Gossip", "PushSum"]
