"""Every method, once, with what it runs on. A method that is not here fails `test_the_table_is_complete`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

import covey
from covey import SGD, Task, compress, graphs, trigger
from covey import algorithms as a
from covey.exchange import Compressed, CompressedPush, ErrorFeedback, PushSum
from covey.graphs import Graph

PEERS = 6
HEAD = SGD(0.1, steps=2, batch=4)
BODY = SGD(0.2, epochs=1, batch=4, momentum=0.9, weight_decay=1e-3, clip=5.0, decay=0.95)
STEP = SGD(0.2, steps=3, batch=4)
SAM = SGD(0.2, epochs=1, batch=4, sam=0.05)


@dataclass(frozen=True)
class Case:
    name: str
    algorithm: a.Algorithm
    graph: Callable[[], Graph]
    server: bool = False  # not everybody takes part in a round
    adds: tuple[str, ...] = ()  # statistics that `prepare` adds to the model's


def _server() -> Graph:
    return graphs.server(PEERS, 0.5)


def _push() -> Graph:
    return graphs.random_directed(PEERS, 2)


def _fixed_push() -> Graph:
    return graphs.fixed(graphs.random_directed(PEERS, 2))


def _pull() -> Graph:
    return graphs.random_directed(PEERS, 2, weights="pull")


def _gossip() -> Graph:
    return graphs.random_undirected(PEERS, 2)


def _ring() -> Graph:
    return graphs.ring(PEERS)


CASES = (
    Case("local", a.Local(BODY), lambda: graphs.isolated(PEERS)),
    Case("heads", a.Heads(HEAD), lambda: graphs.isolated(PEERS)),
    Case("dpsgd", a.DPSGD(SGD(0.1, batch=4)), _ring),
    Case("dpsgd-cta", a.DPSGD(SGD(0.1, batch=4), order="cta"), _ring),
    Case("dfedavg", a.DFedAvg(SGD(0.2, epochs=1, batch=4)), _gossip),
    Case("dfedavgm", a.DFedAvgM(BODY), _gossip),
    Case("dfedavgmp", a.DFedAvgMP(BODY), _gossip),
    Case("dfedalt", a.DFedAlt(HEAD, BODY), _gossip),
    Case("dfedsalt", a.DFedSalt(HEAD, SAM), _gossip),
    Case("dfedsalt-both", a.DFedSalt(SGD(0.1, steps=2, batch=4, sam=0.05), SAM, on="both"), _ring),
    Case("deprl", a.DePRL(HEAD, SGD(0.2, batch=4)), _ring),
    Case("sgp", a.SGP(BODY), _push),
    Case("osgp", a.OSGP(SGD(0.1, epochs=1, batch=4)), _push),
    Case("osgp-overlap", a.OSGP(SGD(0.1, epochs=1, batch=4), by=PushSum(overlap=True)), _push),
    Case("dfedpgp", a.DFedPGP(HEAD, BODY), _push),
    Case("dfedpgp-pull", a.DFedPGP(HEAD, BODY), _pull),
    Case("dsgdm", a.DSGDm(BODY), _gossip),
    Case("dsgdm-nesterov", a.DSGDm(SGD(0.1, epochs=1, batch=4, momentum=0.9, nesterov=True)), _ring),
    Case("qgdsgdm", a.QGDSGDm(STEP), _gossip),
    Case("qgdsgdm-nesterov", a.QGDSGDm(SGD(0.1, batch=4, decay=0.9), 0.5, nesterov=True), _ring),
    Case("gtdsgd", a.GTDSGD(SGD(0.1, batch=4)), _gossip),
    Case("gtdsgd-local", a.GTDSGD(STEP), _ring),
    Case("d2", a.D2(SGD(0.1, batch=4)), _ring),
    Case("extra", a.EXTRA(SGD(0.1, batch=4)), _ring),
    Case("choco", a.CHOCO(STEP, compress.TopK(5), 0.3), _ring),
    Case("choco-pre", a.CHOCO(BODY, compress.QSGD(15), 0.5, order="pre"), _ring),
    Case("sparq", a.SPARQ(STEP, compress.RandK(0.2), 0.2, trigger.norm(5.0)), _ring),
    Case("squarm", a.SQuARM(STEP, compress.SignTopK(0.2), 0.3, trigger.norm(5.0, per="tensor")), _ring),
    Case("dfedalt-each", a.DFedAlt(HEAD, BODY, by=Compressed(compress.QTopK(0.3), 0.5, copies="each")), _ring),
    Case("dfedpgp-compressed", a.DFedPGP(HEAD, BODY, by=CompressedPush(compress.Sign(), 0.5)), _fixed_push),
    Case("dfedavg-auto", a.DFedAvg(STEP, by=Compressed(compress.TopK(0.3))), _ring),
    Case("dfedpgp-auto", a.DFedPGP(HEAD, BODY, by=CompressedPush(compress.TopK(0.3))), _fixed_push),
    Case("dfedavg-feedback", a.DFedAvg(STEP, by=ErrorFeedback(compress.TopK(0.5), 0.3)), _gossip),
    Case("centralised", a.Centralised(BODY), lambda: graphs.centre(PEERS)),
    Case("epidemic", a.Epidemic(BODY), lambda: graphs.epidemic(PEERS, 2)),
    Case("dfedsam", a.DFedSAM(SAM), _gossip),
    Case("dfedsam-mgs", a.DFedSAM(SAM, gossips=3), _ring),
    # 0.8: at 0.5 some unit has no input left, and under BatchNorm rounding decides on which side of ReLU it lies
    Case("dispfl", a.DisPFL(BODY, 0.8, rounds=8), _pull),
    Case("dispfl-random", a.DisPFL(STEP, 0.3, "random"), _ring),
    Case("fedavg", a.FedAvg(BODY), _server, server=True),
    Case("fedavgm", a.FedAvgM(BODY, beta=0.5), _server, server=True),
    Case("fedper", a.FedPer(BODY), _server, server=True),
    Case("fedrep", a.FedRep(HEAD, BODY), _server, server=True),
    Case("fedbabu", a.FedBABU(BODY, HEAD), _server, server=True),
    Case("fedrod", a.FedRoD(BODY), _server, server=True, adds=("head.counts",)),
    Case("fedrod-hyper", a.FedRoD(STEP, hyper=4), _server, server=True, adds=("head.counts",)),
    Case("ditto", a.Ditto(BODY, 0.5), _server, server=True),
    Case("ditto-split", a.Ditto(STEP, 0.75, SAM), _server, server=True),
)


class Net(nn.Module):
    """Everything that makes rows hard at once: normalisation with statistics, dropout, a head of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def task(dtype: torch.dtype = torch.float64, sizes: tuple[int, ...] = (12, 9, 12, 5, 20, 8)) -> Task:
    """A small classification problem with peers of unequal size."""
    generator = torch.Generator().manual_seed(1)
    teacher = torch.randn(6, 3, generator=generator, dtype=dtype)
    peers = []
    for size in sizes:
        x = torch.randn(size + 6, 6, generator=generator, dtype=dtype)
        y = (x @ teacher).argmax(1)
        peers.append((x[:size], y[:size], x[size:], y[size:]))
    torch.manual_seed(2)
    return Task.from_module(Net().to(dtype), covey.data.from_peers(peers), personal="head")
