"""Bytes: what is decoded is to the last bit what the sender added, the count of bits is that of the real bytes, and
bytes that no sender has written are refused."""

from __future__ import annotations

import math
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from covey import SGD, Task, compress, graphs, trigger
from covey.algorithms import DFedAlt, SQuARM
from covey.compress import Compressor, Message
from covey.compress.forms import Chosen, Floats, Form, Levels, Signs
from covey.compress.payload import Damaged, decode, encode
from covey.exchange import Compressed, CompressedPush
from covey.link import InProcessLink
from covey.randomness import key
from theory.problems import PEERS, classifier
from theory.rounds import Rounds

D = 300
EVERY: dict[str, Compressor] = {
    "Identity": compress.Identity(), "Sign": compress.Sign(), "QSGD(1)": compress.QSGD(1), "QSGD(5)": compress.QSGD(5),
    "QSGD(300)": compress.QSGD(300), "TopK(1)": compress.TopK(1), "TopK": compress.TopK(0.02),
    "TopK half": compress.TopK(0.5), "SignTopK": compress.SignTopK(0.05), "RandK": compress.RandK(0.1),
    "QTopK": compress.QTopK(0.1, levels=6), "whole": compress.Whole(compress.QTopK(0.3)),
}  # fmt: skip
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
PARTS = [slice(0, 1), slice(1, 40), slice(40, D)]


def rows(dtype: torch.dtype) -> Tensor:
    x = torch.randn(6, D, generator=torch.Generator().manual_seed(0), dtype=dtype)
    x[1, 17:] = 0.0
    x[2] = x[2].clamp(min=1.0)  # ties, and no negative number
    x[3] = torch.where(torch.arange(D) < 30, 5.0 + x[3], 0.0)  # all large ones side by side
    x[4] = 0.0
    return x


def same(one: Form, other: Form) -> bool:
    """Equal to the last bit, negative zeros too."""
    if isinstance(one, Chosen) and isinstance(other, Chosen):
        return torch.equal(one.index, other.index) and same(one.inner, other.inner)
    assert not isinstance(one, Chosen) and not isinstance(other, Chosen)
    a, b = one.values(), other.values()
    return a.dtype == b.dtype and torch.equal(a, b) and torch.equal(a.signbit(), b.signbit())


def row_of(form: Form, row: int) -> Form:
    """The form of one row, as its bytes should be read."""
    one = slice(row, row + 1)
    if isinstance(form, Chosen):
        inner = row_of(form.inner, row)
        assert not isinstance(inner, Chosen)
        return Chosen(form.index[one], inner, form.width)
    if isinstance(form, Floats):
        return Floats(form.value[one])
    if isinstance(form, Signs):
        return Signs(form.scale[one], form.negative[one])
    return Levels(form.norm[one], form.negative[one], form.level[one], form.s, form.beta)


def bits_of(message: Message, row: int) -> int:
    """The real payload of a row: the bytes of each tensor that it speaks of."""
    assert message.forms is not None and message.said is not None
    speakers = message.said.any(1).nonzero()[:, 0].tolist()
    if row not in speakers:
        return 0
    place = speakers.index(row)
    return 8 * sum(len(encode(form, place)) for i, form in enumerate(message.forms) if message.said[row, i])


@TYPES
@pytest.mark.parametrize("name", EVERY)
def test_bytes_come_back_and_are_counted(name: str, dtype: torch.dtype) -> None:
    message = EVERY[name](rows(dtype), key("payload", torch.arange(6)), tensors=PARTS)
    assert message.forms is not None
    for form in message.forms:
        for row in range(6):
            blob = encode(form, row)
            assert same(decode(blob, like=row_of(form, 0)), row_of(form, row))
            assert float(form.size()[row]) == len(blob)
    assert [bits_of(message, row) for row in range(6)] == message.encoded.tolist()


@TYPES
@pytest.mark.parametrize("name", EVERY)
def test_what_was_decoded_is_what_the_algebra_used(name: str, dtype: torch.dtype) -> None:
    """A receiver who knows nothing but the bytes builds the very row that the sender adds to its own copy."""
    message = EVERY[name](rows(dtype), key("payload", torch.arange(6)), tensors=PARTS)
    assert message.forms is not None
    for row in range(6):
        heard = torch.zeros(D, dtype=dtype)
        for form, part in zip(message.forms, message.tensors, strict=True):
            found = decode(encode(form, row), like=row_of(form, 0))
            own = heard[part]
            if isinstance(found, Chosen):
                own[found.index[0]] = found.inner.values()[0]
            else:
                own.copy_(found.values()[0])
        assert torch.equal(heard, message.dense[row])


def test_bytes_by_hand() -> None:
    """SignTopK of x = (0, −3, 0, 0, 5, 0, 0, 1): positions 1 and 4, their mean magnitude 4, signs −, +. A bitmap of 8
    positions takes a byte, two positions of 3 bits one, too; the first code is taken."""
    form = compress.SignTopK(2)(torch.tensor([[0.0, -3, 0, 0, 5, 0, 0, 1]])).forms
    assert form is not None
    assert encode(form[0], 0) == bytes([0, 0b00010010]) + struct.pack("<f", 4.0) + bytes([0b01])


@pytest.mark.parametrize(("k", "width", "code"), [(150, 300, "bitmap"), (1, 1 << 20, "fixed"), (100, 10_000, "Rice")])
def test_the_shortest_code_of_positions_is_taken(k: int, width: int, code: str) -> None:
    index = torch.randperm(width, generator=torch.Generator().manual_seed(0))[:k].sort().values
    if code == "fixed":
        index[0] = width - 1  # one gap, far longer than gaps are expected to be: its unary part would be long
    form = Chosen(index[None], Floats(torch.ones(1, k)), width)
    blob = encode(form, 0)
    assert ("bitmap", "fixed", "Rice")[min(blob[0], 2)] == code
    fixed = 1 + math.ceil(k * math.ceil(math.log2(width)) / 8) + 4 * k
    assert len(blob) <= min(fixed, 1 + math.ceil(width / 8) + 4 * k)
    assert same(decode(blob, form), form)


def test_gap_codes_beat_fixed_positions() -> None:
    """1 % of a million positions, at random: entropy is 8.08 bits a position; fixed positions take 20."""
    keys = key("positions", torch.arange(3))
    message = compress.RandK(10_000)(torch.zeros(3, 1_000_000), keys)
    bits = (message.encoded / 10_000 - 32).tolist()
    assert all(8.07 < b < 8.4 for b in bits)


DAMAGE = ["Sign", "QSGD(5)", "TopK", "SignTopK", "QTopK", "Identity"]


@pytest.mark.parametrize("name", DAMAGE)
def test_cut_and_lengthened_bytes_are_refused(name: str) -> None:
    message = EVERY[name](rows(torch.float32)[:1], key("d", torch.arange(1)))
    assert message.forms is not None
    form = message.forms[0]
    blob = encode(form, 0)
    for damaged in [*(blob[:end] for end in range(len(blob))), blob + b"\0", blob + b"\1\2", b""]:
        with pytest.raises(Damaged):
            decode(damaged, like=form)


@pytest.mark.parametrize("name", DAMAGE)
def test_changed_bytes_are_refused_or_are_what_a_sender_could_have_said(name: str) -> None:
    """No bytes make anything but a form of the right shape with finite numbers, positions that ascend within the width,
    and levels in range; and nothing but `Damaged` is raised."""
    message = EVERY[name](rows(torch.float32)[:1], key("d", torch.arange(1)))
    assert message.forms is not None
    form = message.forms[0]
    blob = encode(form, 0)

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(st.integers(0, len(blob) - 1), st.integers(1, 255)), min_size=1, max_size=4))
    def survives(changes: list[tuple[int, int]]) -> None:
        spoilt = bytearray(blob)
        for place, change in changes:
            spoilt[place] ^= change
        try:
            found = decode(bytes(spoilt), like=form)
        except Damaged:
            return
        inner = found.inner if isinstance(found, Chosen) else found
        assert bool(inner.values().isfinite().all())
        if isinstance(found, Chosen):
            index = found.index[0]
            assert found.index.shape == form.index.shape  # type: ignore[union-attr]
            assert bool((index.diff() > 0).all()) and int(index[0]) >= 0 and int(index[-1]) < D
        if isinstance(inner, Levels):
            assert int(inner.level.max()) <= inner.s
        assert decode(encode(found, 0), like=form) is not None

    survives()


IMPOSSIBLE = {
    "a code of positions": (compress.TopK(2), lambda blob: bytes([200]) + blob[1:]),
    "a position twice": (compress.TopK(2), lambda blob: bytes([1, 0b00001001]) + blob[2:]),
    "positions that fall": (compress.TopK(2), lambda blob: bytes([1, 0b00001010]) + blob[2:]),
    "one position too many": (compress.TopK(2), lambda blob: bytes([0, 0b00010011]) + blob[2:]),
    "no position": (compress.TopK(2), lambda blob: bytes([0, 0]) + blob[2:]),
    "bits behind the last": (compress.SignTopK(2), lambda blob: blob[:-1] + bytes([0b101])),
    "a negative magnitude": (compress.SignTopK(2), lambda blob: blob[:2] + struct.pack("<f", -4.0) + blob[6:]),
    "a magnitude of nan": (compress.SignTopK(2), lambda blob: blob[:2] + struct.pack("<f", math.nan) + blob[6:]),
    "an infinite number": (compress.TopK(2), lambda blob: blob[:2] + struct.pack("<f", math.inf) + blob[6:]),
    "a level above s": (compress.QTopK(2, levels=2), lambda blob: blob[:-1] + bytes([0b1111])),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_be_is_refused(name: str) -> None:
    compressor, spoil = IMPOSSIBLE[name]
    form = compressor(torch.tensor([[0.0, -3, 0, 0, 5, 0, 0, 1]])).forms
    assert form is not None
    blob = encode(form[0], 0)
    decode(blob, like=form[0])
    with pytest.raises(Damaged):
        decode(spoil(blob), like=form[0])


# Whole runs: every exchange's ledger against the bytes of its messages -----------------------------------------------

TENSORS = trigger.norm(30.0, per="tensor", first=False)
STEP, HEAD = SGD(0.1, steps=2, batch=5), SGD(0.1, steps=1, batch=5)
RUNS = {
    "SQuARM, a trigger per tensor": (SQuARM(STEP, compress.SignTopK(0.2), 0.3, TENSORS), graphs.ring(PEERS)),
    "SQuARM, a trigger": (SQuARM(STEP, compress.QTopK(0.2), 0.3, trigger.norm(300.0)), graphs.ring(PEERS)),
    "DFedAlt, auto": (DFedAlt(HEAD, STEP, by=Compressed(compress.Sign())), graphs.ring(PEERS)),
    "push-sum": (DFedAlt(HEAD, STEP, by=CompressedPush(compress.RandK(0.3), 0.4)), graphs.exponential(PEERS)),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_ledger_is_that_of_the_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number that is said in float64, in bytes: payloads, the byte of a tensor trigger's flags, γ's byte, μ."""
    method, graph = RUNS[name]
    told = {"SQuARM, a trigger per tensor": (3, 8), "SQuARM, a trigger": (1, 0)}.get(name, (0, 0))
    beside = {"DFedAlt, auto": (3, 8), "push-sum": (32, 64)}.get(name, (0, 0))
    seen = {"formula": 0.0, "encoded": 0.0, "silent": 0, "partly": 0}
    original = InProcessLink.mix

    def spy(self: InProcessLink, first: Message, *rest: object, **how: object) -> object:
        assert first.said is not None and how["carry"]
        said = first.said
        for row in range(PEERS):
            formula = sum(
                compressor.formula(t.stop - t.start) * bool(said[row, i]) for i, t in enumerate(first.tensors)
            )
            seen["formula"] += formula + told[0] + beside[0]
            seen["encoded"] += bits_of(first, row) + (told[1] if bool(said[row].any()) else 0) + beside[1]
            seen["silent"] += not bool(said[row].any())
            seen["partly"] += bool(said[row].any()) and not bool(said[row].all())
        return original(self, first, *rest, **how)  # type: ignore[arg-type]

    compressor = method.compressor if isinstance(method, SQuARM) else method.by.compressor  # type: ignore[attr-defined]
    monkeypatch.setattr(InProcessLink, "mix", spy)
    personal = ("head", "bias") if isinstance(method, DFedAlt) else ()
    run = Rounds(method, classifier(personal), graph).go(6)
    assert run.link.traffic.formula.broadcast == pytest.approx(seen["formula"], rel=1e-14)
    assert run.link.traffic.encoded.broadcast == seen["encoded"]
    degree = int(graph.round(0).out_degree()[0])
    assert run.link.traffic.encoded.links == degree * seen["encoded"]
    assert (seen["silent"] + seen["partly"] > 0) == ("trigger" in name)
    assert (seen["partly"] > 0) == ("per tensor" in name)
    said, asked = run.peers.state["spoke"].sum(0).tolist()
    per = 3 if "per tensor" in name else 1
    assert asked == 6 * PEERS * per
    assert (said < asked) == ("trigger" in name)


def test_silence_costs_its_flag_and_nothing_else() -> None:
    task = Task.from_function(lambda p, own: 0.5 * (p["x"] - own).square().sum(), {"x": torch.zeros(9)},
                              torch.ones(4, 9))  # fmt: skip
    quiet = trigger.norm(1e9, first=False)
    for silent, bits in ((quiet, 1), (trigger.never, 0)):
        run = Rounds(SQuARM(SGD(0.1), compress.Sign(), 0.5, silent), task, graphs.ring(4)).go(3)
        assert run.link.traffic.formula.broadcast == 3 * 4 * bits
        assert run.link.traffic.encoded.broadcast == 0
