"""Real peers on a real network: the same algorithm objects, one row per process, nobody in the middle."""

from covey.network.peer import Peer
from covey.network.status import Neighbour, Status
from covey.network.transport import Transport

__all__ = ["Neighbour", "Peer", "Status", "Transport"]
