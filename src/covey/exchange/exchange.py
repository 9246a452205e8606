"""How the shared rows of peers meet: one of the two factors of which the methods are products.

The other factor is how peers train (whole model, body and head jointly, or in turn); a method of `algorithms/` names a
pair. So DFedAlt becomes DFedPGP by pushing instead of averaging, and a compressed DFedAlt needs no file of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class Exchange(ABC):
    """Acts on `peers.shared`; what it remembers is in `peers.state`."""

    needs: ClassVar[Needs] = "doubly"  # what it assumes of the graph

    def start(self, peers: Peers, link: Link) -> None:
        """Fill `peers.state`."""

    @abstractmethod
    def __call__(self, peers: Peers, link: Link) -> None:
        """One exchange."""

    def mass(self, peers: Peers) -> Tensor | None:
        """What the shared rows are to be divided by where a model is needed: [rows, 1], None for one."""
        return None

    def model(self, peers: Peers) -> Tensor:
        """The rows that each peer would use."""
        mass = self.mass(peers)
        return peers.rows if mass is None else peers.with_shared(peers.shared / mass)
