"""Compressors against their definitions, written here once more with plain Python: what is said, how much of x it keeps
(E‖C(x) − x‖² ≤ (1 − ω)‖x‖²), and what it costs."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from covey.compress import QSGD, Compressor, Identity, QTopK, RandK, Sign, SignTopK, TopK, Whole
from covey.compress.sparse import among_candidates, largest
from covey.randomness import key
from refusals import refused_in_one_sentence

D = 12
FIXED: dict[str, Compressor] = {"Identity": Identity(), "Sign": Sign(), "TopK": TopK(4), "SignTopK": SignTopK(4),
                                "SignTopK(1)": SignTopK(1), "TopK share": TopK(0.3)}  # fmt: skip
DRAWN: dict[str, Compressor] = {"RandK": RandK(4), "QSGD(1)": QSGD(1), "QSGD(4)": QSGD(4), "QTopK": QTopK(4, levels=2)}
EVERY = FIXED | DRAWN | {"whole Sign": Whole(Sign()), "whole QTopK": Whole(QTopK(0.3, levels=3))}
OMEGA = {  # of 12 numbers, by hand: k = 4 (a share of 0.3 is 3); β = min(d / s², √d / s)
    "Identity": 1.0, "Sign": 1 / 12, "TopK": 4 / 12, "SignTopK": 1 / 4, "SignTopK(1)": 1 / 12, "TopK share": 3 / 12,
    "RandK": 4 / 12, "QSGD(1)": 1 / (1 + math.sqrt(12)), "QSGD(4)": 1 / (1 + 12 / 16), "QTopK": 4 / 12 / (1 + 4 / 4),
    "whole Sign": 1 / 12, "whole QTopK": 3 / 12 / (1 + 3 / 9),
}  # fmt: skip
PARTS = [slice(0, 5), slice(5, 6), slice(6, 12)]

number = st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda v: 0.0 if abs(v) < 1e-12 else v)
vector = st.one_of(
    st.lists(number, min_size=D, max_size=D),
    st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=D, max_size=D),  # nothing but ties
    st.integers(0, D - 1).map(lambda i: [1e3 if j == i else 0.0 for j in range(D)]),  # one spike
    st.floats(0.01, 1.0).map(lambda c: [1.0] + [c] * (D - 1)),  # where Sign and SignTopK are at their worst
    st.floats(0.1, 0.99).map(lambda r: [(-r) ** j for j in range(D)]),
)
quick = settings(max_examples=60, deadline=None, derandomize=True)


def rows(*vectors: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(vectors, dtype=dtype)


def lost(compressor: Compressor, x: Tensor, keys: Tensor | None = None, tensors: list[slice] | None = None) -> Tensor:
    return (compressor(x, keys, tensors=tensors).dense - x).square().sum(1)


@pytest.mark.parametrize("name", OMEGA)
def test_omega_by_hand(name: str) -> None:
    assert EVERY[name].omega(D) == pytest.approx(OMEGA[name], rel=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_compressor_contracts(name: str, dtype: torch.dtype) -> None:
    @quick
    @given(vector)
    def contracts(given: list[float]) -> None:
        x = rows(given, dtype=dtype)
        total = float(x.double().square().sum())
        rounding = 20 * torch.finfo(dtype).eps * total
        assert float(lost(FIXED[name], x)) <= (1 - FIXED[name].omega(D)) * total + rounding

    contracts()


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawn_compressor_contracts_in_the_mean(name: str) -> None:
    """Over 600 draws, to 5 standard errors of their mean."""

    @settings(quick, max_examples=25)
    @given(vector)
    def contracts(given: list[float]) -> None:
        error = lost(DRAWN[name], rows(given).expand(600, D), key("draws", torch.arange(600)))
        total = float(rows(given).square().sum())
        margin = 5 * float(error.std()) / math.sqrt(600) + 1e-13 * total
        assert float(error.mean()) <= (1 - DRAWN[name].omega(D)) * total + margin

    contracts()


@pytest.mark.parametrize("name", [name for name in EVERY if not EVERY[name].whole])
def test_tensor_by_tensor(name: str) -> None:
    """Each tensor is compressed as if it were alone, so the least ω of their sizes holds for all."""
    compressor, keys = EVERY[name], key("parts", torch.arange(300))
    x = torch.randn(300, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = compressor(x, keys, tensors=PARTS)
    if name in FIXED:
        alone = [compressor(x[:, part]).dense for part in PARTS]
        assert torch.equal(found.dense, torch.cat(alone, 1))
    omega = min(compressor.omega(part.stop - part.start) for part in PARTS)
    error = lost(compressor, x, keys, PARTS) / x.square().sum(1)
    assert float(error.mean()) <= 1 - omega + 1e-12
    assert float(found.formula[0]) == sum(compressor.formula(part.stop - part.start) for part in PARTS)


@pytest.mark.parametrize("compressor", [Whole(Sign()), Whole(TopK(0.5)), TopK(3), SignTopK(3)], ids=repr)
def test_over_the_whole_vector(compressor: Compressor) -> None:
    x = rows([3.0, -1, 2, 0.5, 9, 0, -4, 1, 1, 1, -7, 2])
    assert torch.equal(compressor(x, tensors=PARTS).dense, compressor(x).dense)
    assert compressor.whole


def test_what_is_said_by_hand() -> None:
    """x = (3, −1, ½, 0). Zero counts as positive."""
    x = rows([3.0, -1.0, 0.5, 0.0])
    expected = {Sign(): (1.125, -1.125, 1.125, 1.125), TopK(1): (3, 0, 0, 0), SignTopK(2): (2, -2, 0, 0),
                Identity(): (3, -1, 0.5, 0)}  # fmt: skip
    for compressor, said in expected.items():
        assert compressor(x).dense.tolist() == [list(said)]


def by_hand(x: list[float], k: int) -> list[int]:
    return sorted(sorted(range(len(x)), key=lambda i: (-abs(x[i]), i))[:k])


@pytest.mark.parametrize("k", [1, 3, 11, 12])
def test_of_equal_ones_the_first(k: int) -> None:
    @quick
    @given(vector)
    def as_sorted(given: list[float]) -> None:
        x = rows(given, given[::-1])
        assert largest(x.abs(), k).tolist() == [by_hand(given, k), by_hand(given[::-1], k)]

    as_sorted()


def long_rows() -> dict[str, Tensor]:
    """Rows so long that candidates are sought first, by every 64th number; most of them mislead that search."""
    d, g = 1 << 15, torch.Generator().manual_seed(0)
    base = torch.randn(d, generator=g)
    place = torch.arange(d)
    return {
        "normal": base, "all equal": torch.ones(d), "zeros": torch.zeros(d), "few values": (4 * base).round() / 4,
        "large where it looks": torch.where(place % 64 == 0, 1e3 + base, base),
        "small where it looks": torch.where(place % 64 == 0, 0.0, base),
        "one spike": torch.where(place == 77, 9.0, 0.0),
        "heavy tails": base**9, "just enough": torch.where(place < 300, 2.0 + place / 300, 0.0),
    }  # fmt: skip


@pytest.mark.parametrize("k", [1, 300, 4000])
@pytest.mark.parametrize("name", long_rows())
def test_candidates_are_exact(name: str, k: int) -> None:
    x = long_rows()[name].abs()
    expected = torch.sort(x, descending=True, stable=True).indices[:k].sort().values
    both = torch.stack([x, x.flip(0), torch.roll(x, 7)])
    assert torch.equal(largest(both, k)[0], expected)
    assert torch.equal(among_candidates(both, k), largest(both, k))  # all rows at once, as on an accelerator


@pytest.mark.parametrize("name", EVERY)
def test_zero_is_said_as_zero(name: str) -> None:
    assert not EVERY[name](torch.zeros(2, D), key(torch.arange(2))).dense.any()


@pytest.mark.parametrize("name", ["TopK", "SignTopK", "SignTopK(1)", "Sign"])
def test_what_is_said_is_a_projection(name: str) -> None:
    """⟨C(x), x⟩ = ‖C(x)‖²."""
    x = torch.randn(50, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    said = FIXED[name](x).dense
    torch.testing.assert_close((said * x).sum(1), said.square().sum(1), rtol=1e-12, atol=0)


@pytest.mark.parametrize("share", [0.07, 0.1, 0.29, 0.3, 0.57, 0.58])
def test_a_share_is_rounded_down_but_not_by_floating_point(share: float) -> None:
    """0.29 · 100 is 28.999999999999996 in floating point."""
    for d in (1, 3, 10, 100, 1000, 7840):
        assert TopK(share).count(d) == max(1, math.floor(Fraction(str(share)) * d)), d


def test_draws_are_keyed_by_peer_and_by_nothing_else() -> None:
    x = torch.randn(6, D, generator=torch.Generator().manual_seed(0))
    keys = key("peer", torch.arange(6))
    for name in DRAWN:
        together = DRAWN[name](x, keys).dense
        assert torch.equal(together[2:4], DRAWN[name](x[2:4], keys[2:4]).dense)
        assert not torch.equal(together, DRAWN[name](x, key("other", torch.arange(6))).dense)


BITS = {  # 5.3, d = 7840, k = 10: 13 bits a position
    "Identity": (Identity(), 250_880), "Sign": (Sign(), 7_872), "TopK": (TopK(10), 450),
    "SignTopK": (SignTopK(10), 172),
    "RandK": (RandK(10), 450), "QSGD": (QSGD(15), 7840 * 5 + 32), "QTopK": (QTopK(10, levels=15), 10 * (5 + 13) + 32),
    "TopK share": (TopK(0.01), 78 * 45),
}  # fmt: skip


@pytest.mark.parametrize("name", BITS)
def test_bits_by_the_formula(name: str) -> None:
    compressor, bits = BITS[name]
    assert compressor.formula(7840) == bits
    assert compressor(torch.ones(3, 7840)).formula.tolist() == [bits] * 3


@pytest.mark.parametrize("d", [1, 2, 1000, 1024, 1025])
def test_a_position_takes_whole_bits(d: int) -> None:
    assert TopK(0.001).formula(d) == 1 * 32 + {1: 0, 2: 1, 1000: 10, 1024: 10, 1025: 11}[d]


WRONG = {
    "nothing": (lambda: TopK(0), "k is a whole number of 1 or more"),
    "less": (lambda: SignTopK(-3), "k is a whole number of 1 or more"),
    "all": (lambda: TopK(1.0), "use a share above 0 and below 1"),
    "more": (lambda: RandK(fraction=1.5), "use a share above 0 and below 1"),
    "no share": (lambda: RandK(0.0), "use a share above 0 and below 1"),
    "nan": (lambda: TopK(math.nan), "use a share above 0 and below 1"),
    "neither": (lambda: TopK(), "one of them"),
    "both": (lambda: TopK(3, 0.1), "one of them"),
    "no levels": (lambda: QSGD(0), "use a whole number from 1 to 65535"),
    "half a level": (lambda: QSGD(1.5), "use a whole number from 1 to 65535"),  # type: ignore[arg-type]
    "levels of some": (lambda: QTopK(3, levels=-1), "use a whole number from 1 to 65535"),
    "above d": (lambda: TopK(13)(torch.ones(1, D)), "more than the 12 numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_refused_in_one_sentence(name: str) -> None:
    refused_in_one_sentence(*WRONG[name])
