"""What every method is: frozen configuration, and four verbs that the engine calls in order.

    start      once: what the method keeps beside the rows, in `peers.state`
    train      every round, first: local work; nobody is heard
    exchange   every round, second: what neighbours say
    models     when somebody looks: the rows that each peer would use

All that a method remembers is `peers.state[name]`, a tensor with a row per peer; the engine saves and resumes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from covey.exchange import Exchange, Gossip
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.tasks.task import Task

Models = Iterator[tuple[str, Tensor]]


@dataclass(frozen=True)
class Habit:
    """What the command line takes for a method's local work where nothing is said: as its paper has it."""

    momentum: float = 0.9
    steps: int | None = None  # of a round, for methods that are about single steps; None: an epoch
    head_epochs: int | None = 1  # None: as many as the body
    sharp: bool = False  # the phases that `on` names (all, where there is no `on`) take sharpness-aware steps


@dataclass(frozen=True)
class Algorithm(ABC):
    """A method. Subclasses are frozen dataclasses whose fields are the method's configuration."""

    habit: ClassVar[Habit] = Habit()

    @property
    def needs(self) -> Needs:
        """What the method assumes of the graph; a graph that breaks it is refused."""
        return "doubly"

    def prepare(self, task: Task) -> Task:
        """The task as this method sees it; a method for one common model shares every parameter: `task.whole()`."""
        return task

    def start(self, peers: Peers, link: Link) -> None:
        """Fill `peers.state`. Messages sent here count as those of round 0."""

    @abstractmethod
    def train(self, peers: Peers) -> None:
        """The local work of a round, on `peers.rows` and `peers.state`, in place."""

    @abstractmethod
    def exchange(self, peers: Peers, link: Link) -> None:
        """The messages of a round. Every peer asks the link the same things in the same order, whatever it holds."""

    def models(self, peers: Peers) -> Models:
        """Named rows, the first being what each peer would use. It may train copies; it changes nothing."""
        yield "model", peers.rows


@dataclass(frozen=True)
class Cooperative(Algorithm):
    """A method that trains in some way and whose shared rows then meet `by` an exchange that can be chosen."""

    by: Exchange = field(default=Gossip(), kw_only=True)

    @property
    def needs(self) -> Needs:
        return self.by.needs

    def start(self, peers: Peers, link: Link) -> None:
        self.by.start(peers, link)

    def exchange(self, peers: Peers, link: Link) -> None:
        self.by(peers, link)

    def models(self, peers: Peers) -> Models:
        yield "model", self.by.model(peers)
