"""Snapshots on a symmetric graph, of which some are lost: both ends of an edge use it, or neither does.

The matrix stays doubly stochastic only if W_ij x_j is added at i exactly where W_ji x_i is added at j. Of two
neighbours the one with the higher place decides:

    lower i    shows x_i, once
    higher j   posts x_j (durable); uses the edge if x_i is here by its deadline; posts the verdict (durable)
    lower i    uses the edge if x_j and "used" are here by its deadline. If not it keeps its weight for now, and where
               "used" arrives later it adds W_ij (x_j − x_i) of that round to a later one: Σx is then what it should be.

What the verdict depends on, x_i, is on j's disk before the verdict leaves, so a replay of the round decides alike. To
a neighbour that is gone, or has fallen far behind, nothing is posted, and the edge is not used. A verdict that never
comes (j died for good, or skipped the round) is "not used": j's stream goes on with a later round, which says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.compress import Message
from covey.network.codec import decode_row
from covey.network.heard import Hearing, Late, Things
from covey.network.protocol import Letter
from covey.network.store import Heard, Outgoing
from covey.network.wire import Kind

if TYPE_CHECKING:
    from covey.network.link import NetworkLink

_WORDS = {True: b"\1", False: b"\0"}


def agreed(link: NetworkLink, messages: list[Message], body: bytes, call: int) -> Hearing:
    """One exchange of snapshots with all neighbours of this round."""
    return _Agreement(link, messages, body, call).run()


class _Agreement:
    def __init__(self, link: NetworkLink, messages: list[Message], body: bytes, call: int) -> None:
        self.link, self.messages, self.body, self.call = link, messages, body, call
        self.into = link.row(link.t)
        names = {link.roster[k]: k for k in self.into}
        self.below = {name: k for name, k in names.items() if k < link.me}  # I decide
        self.above = {name: k for name, k in names.items() if k > link.me}  # they do
        self.used: dict[str, Things | None] = {}  # None: not used
        self.late: list[Late] = []

    def run(self) -> Hearing:
        link, call = self.link, self.call
        offered = link.replay.addressed(call)
        if offered is None:
            offered = {name for name in self.below if not link.unreachable(name, call)}
            letters = [link.letter(name, call, Kind.SAID, len(self.messages)) for name in sorted(offered)]
            link.post.say(link.t, call, self.body, letters, link.leaving(call))
        self.used = {name: None for name in self.below if name not in offered}
        for name in self.used:
            link.post.go_without(name)
        for one in link.replay.heard(call):  # what this round had decided before it was cut short
            if one.letter.kind is Kind.SNAPSHOT:
                self.used[one.neighbour] = link.decode(one.neighbour, one.letter.body, self.messages)
        for name in self.above:
            link.post.show(name, link.snapshot(self.body, call, len(self.messages)))
        missing = (
            self._progress()
            if link.replay.complete(call)
            else link.post.wait(set(self.below | self.above), self._progress)
        )
        self._decide({name: None for name in missing if name in self.below})
        link.pending |= {(link.t, call, self.above[name]) for name in missing if name in self.above}
        heard = Hearing(link.own(), late=self.late)
        for name, k in (self.below | self.above).items():
            things = self.used.get(name)
            if things is None:
                heard.own += self.into[k]
            else:
                heard.now[k] = (self.into[k], things)
        return heard

    def _progress(self) -> set[str]:
        """Take in what has arrived; whom I still wait for."""
        snapshots = {name: self.link.snapshot_of(name, self.call) for name in self.below if name not in self.used}
        self._decide({name: frame.body for name, frame in snapshots.items() if frame is not None})
        for name in self.link.post.edges:
            if self.link.place[name] > self.link.me and name not in self.used:
                self._listen(name)
        over = [name for name in self.below | self.above if name not in self.used and self._over(name)]
        self._decide({name: None for name in over if name in self.below})
        self.used |= dict.fromkeys(over)
        return {name for name in self.below | self.above if name not in self.used}

    def _over(self, name: str) -> bool:
        """Whether a neighbour is in a later round already, and nothing of this one will come."""
        return self.link.post.passed(name, self.call)

    # as the higher end

    def _decide(self, heard: dict[str, bytes | memoryview | None]) -> None:
        letters: list[Outgoing] = []
        record: list[Heard] = []
        for name, body in heard.items():
            things = self.link.decode(name, body, self.messages)
            self.used[name] = things
            letters.append(self.link.letter(name, self.call, Kind.VERDICT, body=_WORDS[things is not None]))
            kept = None if things is None or body is None else bytes(body)
            record.append(Heard(self.call, name, Letter(0, Kind.SNAPSHOT, self.link.t, kept)))
        if letters:
            self.link.post.say(self.link.t, self.call, None, letters, record)

    # as the lower end

    def _listen(self, name: str) -> None:
        """Take the verdicts of one neighbour in order: of earlier rounds, and of this one."""
        k, t = self.link.place[name], self.link.t
        for said, verdict in self._verdicts(name):
            if verdict.round > t:  # it speaks of a later round, and not of this one
                if name in self.above:
                    self.used[name] = None
                return
            self.link.take(name, self.call, said)
            self.link.take(name, self.call, verdict)
            used = bytes(verdict.body or b"") == _WORDS[True]
            things = self.link.decode(name, said.body, self.messages) if used else None
            if verdict.round == t:
                self.used[name] = things
                self.link.settle(self.call, k, t)
                return
            if things is not None and (verdict.round, self.call, k) in self.link.pending:
                self._correct(verdict.round, k, things)
            self.link.settle(self.call, k, verdict.round)

    def _verdicts(self, name: str) -> Iterator[tuple[Letter, Letter]]:
        replay = self.link.replay
        if replay.complete(self.call):
            letters = [one.letter for one in replay.heard(self.call) if one.neighbour == name]
        else:
            letters = self.link.post.arrived(name, self.call)
        said: Letter | None = None
        for letter in letters:
            if letter.kind is Kind.SAID:
                said = letter
            elif said is not None and letter.kind is Kind.VERDICT and letter.round == said.round:
                yield said, letter

    def _correct(self, round: int, k: int, things: Things) -> None:
        """An edge of an earlier round, of which I did not know that it was used: + W_ij (x_j − x_i)."""
        own = self.link.post.store.said(round, self.call)
        if own is not None:
            weight = self.link.row(round)[k]
            self.late += [Late(k, weight, things), Late(k, -weight, decode_row(own, self.messages))]
