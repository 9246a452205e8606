"""Partitions: what any of them must conserve, and what each one declares."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from covey.data import Federated, federate
from covey.data.draws import draw_classes_strictly, log_dirichlet
from covey.data.partition import parse
from covey.errors import BadInput, UnknownName
from covey.randomness import key

ALL = ["iid", "dirichlet:0.3", "dirichlet_classes:0.3", "pathological:2", "shards:2"]
EQUAL = ["iid", "dirichlet:0.3", "pathological:2"]


def pool(n: int, classes: int, start: int = 0) -> tuple[Tensor, Tensor]:
    """Samples that carry their own number, with balanced labels."""
    return torch.arange(start, start + n)[:, None].double(), torch.arange(n) % classes


def divided(
    partition: str, peers: int, n: int = 2000, classes: int = 10, seed: int = 0, **options: object
) -> Federated:
    x, y = pool(n, classes)
    x_test, y_test = pool(n // 4, classes, start=10**6)
    return federate(x, y, x_test, y_test, peers=peers, partition=partition, seed=seed, **options)  # type: ignore[arg-type]


def owned(data: Federated, peer: int) -> list[int]:
    return data.train.of(peer)[0][:, 0].long().tolist()


def table(data: Federated, part: str = "train") -> Tensor:
    """Class counts by a plain loop over what each peer sees."""
    samples = getattr(data, part)
    return torch.stack([torch.bincount(samples.of(i)[1], minlength=data.classes or 0) for i in range(len(data))])


@pytest.mark.parametrize("partition", ALL)
@pytest.mark.parametrize("peers", [1, 2, 7, 50])
def test_no_training_sample_is_at_two_peers_and_none_is_tested(partition: str, peers: int) -> None:
    data = divided(partition, peers)
    everything = [s for i in range(peers) for s in owned(data, i)]
    assert len(everything) == len(set(everything))
    tested = torch.cat([data.test.of(i)[0][:, 0] for i in range(peers)])
    assert (tested >= 10**6).all()
    if partition.split(":")[0] != "pathological":
        assert len(everything) == 2000 or (partition == "shards:2" and peers * 2 < 10)


@pytest.mark.parametrize("partition", EQUAL)
@pytest.mark.parametrize("peers", [3, 16, 50])
def test_the_equal_kinds_give_equal_sizes(partition: str, peers: int) -> None:
    counts = divided(partition, peers).train.counts
    assert int(counts.max() - counts.min()) <= (0 if partition.startswith("path") else 1)


@pytest.mark.parametrize("partition", ALL)
def test_the_same_seed_gives_the_same_division_and_another_seed_another(partition: str) -> None:
    one, again, other = (divided(partition, 20, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.train.index, again.train.index) and torch.equal(one.test.index, again.test.index)
    assert one.train.index.shape != other.train.index.shape or not torch.equal(one.train.index, other.train.index)


@pytest.mark.parametrize("partition", ALL)
def test_dividing_disturbs_no_generator_and_heeds_none(partition: str) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = divided(partition, 20)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(one.train.index, divided(partition, 20).train.index)


@pytest.mark.parametrize("partition", ALL[1:])
def test_test_samples_follow_the_training_mix(partition: str) -> None:
    data = divided(partition, 20)
    train, test = table(data).double(), table(data, "test").double()
    wanted = (train * 500 / train.sum()).clamp(max=50)  # 50 test samples of each class are all there are
    assert (test >= wanted - 1e-9).all() and (test < wanted + 1).all()
    assert ((test > 0) == (train > 0)).all()


def test_nobody_is_tested_twice_on_one_sample_and_test_samples_are_shared_evenly() -> None:
    data = divided("dirichlet:0.3", 40)
    for i in range(40):
        seen = data.test.of(i)[0][:, 0].tolist()
        assert len(seen) == len(set(seen))
    _, y_test = pool(500, 10)
    uses = torch.bincount(data.test.index, minlength=500)
    for label in range(10):
        of_class = uses[y_test == label]
        assert int(of_class.max() - of_class.min()) <= 1


@pytest.mark.parametrize("c", [1, 2, 5, 10])
@pytest.mark.parametrize("peers", [2, 7, 20, 100])
def test_pathological_gives_exactly_c_classes_equally(c: int, peers: int) -> None:
    counts = table(divided(f"pathological:{c}", peers, n=4000))
    assert ((counts > 0).sum(1) == c).all()
    assert all(len(set(row[row > 0].tolist())) == 1 for row in counts)
    if peers * c % 10 == 0:
        assert int(counts.sum()) == 4000 if 4000 % (peers * c) == 0 else int(counts.sum()) > 3600


def test_pathological_pairs_of_classes_are_all_met() -> None:
    pairs = {tuple(row.nonzero()[:, 0].tolist()) for row in table(divided("pathological:2", 400, n=8000))}
    assert len(pairs) >= 43  # of 45; each is missed by about 1 in 7000


def test_pathological_with_few_peers_draws_other_classes_with_another_seed() -> None:
    met = {tuple(table(divided("pathological:1", 2, seed=s)).sum(0).nonzero()[:, 0].tolist()) for s in range(8)}
    assert len(met) > 3


def test_dirichlet_numbers_have_the_moments_of_the_distribution() -> None:
    for alpha in (0.01, 0.1, 1.0, 5.0):
        q = log_dirichlet(key(0, "moments", torch.arange(5_000)), alpha, 10).exp()
        assert torch.allclose(q.sum(1), torch.ones(5_000).double())
        assert float((q.mean(0) - 0.1).abs().max()) < 0.01
        # E q² = (α + 1) / (C (Cα + 1))
        assert float(q.square().mean()) == pytest.approx((alpha + 1) / (10 * (10 * alpha + 1)), rel=0.05)


@pytest.mark.parametrize(("reuse", "tolerance"), [(True, 0.02), (False, 0.06)])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_dirichlet_shares_spread_as_the_prior_says(alpha: float, reuse: bool, tolerance: float) -> None:
    """E Σ q² = (α + 1)/(10 α + 1); drawing s samples from q adds (1 - Σ q²)/s. Strictly, the squeeze mixes a little."""
    shares = table(divided(f"dirichlet:{alpha}", 500, n=20_000, reuse=reuse)).double() / 40
    pure = (alpha + 1) / (10 * alpha + 1)
    assert float(shares.square().sum(1).mean()) == pytest.approx(pure + (1 - pure) / 40, abs=tolerance)


def test_dirichlet_with_reuse_issues_samples_again_and_strictly_never() -> None:
    often = torch.bincount(divided("dirichlet:0.1", 20, reuse=True).train.index)
    assert int(often.max()) > 1
    assert divided("pathological:2", 20, reuse=True).train.counts.tolist() == [100] * 20


def test_dirichlet_classes_spreads_each_class_and_gives_everyone_the_least() -> None:
    data = divided("dirichlet_classes:0.1", 20)
    counts = table(data)
    assert (counts.sum(0) == 200).all() and int(counts.sum(1).min()) >= 10
    assert int(counts.sum(1).max() - counts.sum(1).min()) > 20
    assert data.moved == 0 or data.describe()["moved"] == data.moved


def test_dirichlet_classes_moves_samples_where_no_draw_can_do() -> None:
    data = divided("dirichlet_classes:0.01", 400)
    assert data.moved > 0 and int(data.train.counts.min()) >= 2 and len(data.train.index) == 2000


def test_dirichlet_classes_passes_by_whoever_has_its_share() -> None:
    """Class after class: who has n / peers samples gets none of the later classes, so all but its last class are
    fewer than that."""
    for seed in range(5):
        data = divided("dirichlet_classes:0.3", 20, seed=seed)
        assert data.moved == 0
        for counts in table(data):
            assert int(counts.sum() - counts[counts.nonzero()[-1, 0]]) < 2000 / 20


def test_dirichlet_classes_draws_anew_where_somebody_is_short() -> None:
    """One first draw in seven leaves one of 8 peers with fewer than 5 of 200 samples; none of 20 draws does not."""
    for seed in range(20):
        data = divided("dirichlet_classes:0.3", 8, n=200, classes=5, seed=seed)
        assert data.moved == 0 and int(data.train.counts.min()) >= 5


def test_who_finds_a_class_used_up_draws_afresh_from_the_others() -> None:
    """600 peers want one of three classes, of which the first has a single sample: 300 ± 12 get each of the others.
    Were the first draw used again, the 199 who wanted the first class would all get the second, 399 in all."""
    counts = draw_classes_strictly(torch.zeros(600, 3), torch.ones(600).long(), torch.tensor([1, 1000, 1000]), seed=0)
    first, second, third = counts.sum(0).tolist()
    assert first == 1 and second + third == 599 and abs(second - 300) < 60  # five standard deviations


def test_shards_are_cut_evenly() -> None:
    counts = table(divided("shards:2", 20))
    assert (counts % 50 == 0).all() and (counts.sum(1) == 100).all() and ((counts > 0).sum(1) <= 2).all()


def test_uneven_classes_bind_nobody_to_a_foreign_class() -> None:
    y = torch.repeat_interleave(torch.arange(4), torch.tensor([900, 60, 30, 10]))
    x = torch.zeros(1000, 1)
    data = federate(x, y, x, y, peers=10, partition="pathological:2", seed=1)
    counts = table(data)
    assert ((counts > 0).sum(1) == 2).all() and len(set(counts.sum(1).tolist())) == 1


@pytest.mark.parametrize("partition", [*ALL])
def test_samples_limits_each_peer_in_its_own_mix(partition: str) -> None:
    whole, small = divided(partition, 10), divided(partition, 10, samples=20, test_samples=12)
    assert (small.train.counts == torch.minimum(whole.train.counts, torch.tensor(20))).all()
    assert (small.test.counts == 12).all() or partition == "dirichlet_classes:0.3"
    assert (table(small).sum(1) == small.train.counts).all()
    for i in range(10):
        assert set(owned(small, i)) <= set(owned(whole, i))
    if partition != "iid":
        kept = table(whole).double() / whole.train.counts[:, None] * small.train.counts[:, None]
        assert float((table(small) - kept).abs().max()) < 2


def test_a_smaller_subset_is_part_of_a_larger_one() -> None:
    small, large = divided("dirichlet:0.3", 10, samples=20), divided("dirichlet:0.3", 10, samples=50)
    assert all(set(owned(small, i)) <= set(owned(large, i)) for i in range(10))


def test_natural_gives_each_user_its_own() -> None:
    x, y = pool(60, 3)
    users = (torch.arange(60) * 7) % 5
    data = federate(x, y, x + 100, y, users=users, users_test=users, partition="natural")
    assert len(data) == 5
    for i in range(5):
        assert owned(data, i) == (users == i).nonzero()[:, 0].tolist()
        assert data.test.of(i)[0][:, 0].tolist() == (100.0 + (users == i).nonzero()[:, 0]).tolist()
    some = federate(x, y, x, y, users=users, users_test=users, partition="natural", peers=3, seed=1)
    whole = [set(owned(data, i)) for i in range(5)]
    assert len(some) == 3 and all(set(owned(some, i)) in whole for i in range(3))
    drawn = set()
    for seed in range(9):  # of ten choices of 3 users out of 5
        other = federate(x, y, x, y, users=users, users_test=users, partition="natural", peers=3, seed=seed)
        drawn.add(tuple(whole.index(set(owned(other, i))) for i in range(3)))
    assert len(drawn) > 2


def test_without_a_test_set_a_fifth_of_each_user_is_held_out() -> None:
    x, y = pool(300, 3)
    users = torch.arange(300) // 3 % 5
    data = federate(x, y, users=users, partition="natural", seed=0)
    assert (data.train.counts == 48).all() and (data.test.counts == 12).all()
    assert (table(data, "test") == 4).all() and (table(data) == 16).all()
    seen = [v for part in (data.train, data.test) for i in range(5) for v in part.of(i)[0][:, 0].tolist()]
    assert sorted(seen) == list(range(300))
    other = federate(x, y, users=users, partition="natural", seed=1)
    assert set(other.test.arrays[0][:, 0].tolist()) != set(data.test.arrays[0][:, 0].tolist())


def test_ten_thousand_peers() -> None:
    for partition in ALL:
        data = divided(partition, 10_000, n=30_000)
        assert len(data) == 10_000 and int(data.train.counts.min()) >= 1 and int(data.test.counts.min()) >= 1
        assert int(torch.bincount(data.train.index).max()) == 1


@settings(max_examples=40, deadline=None)
@given(
    labels=st.lists(st.integers(0, 6), min_size=12, max_size=120),
    peers=st.integers(1, 12),
    partition=st.sampled_from([*ALL, "dirichlet:0.01", "dirichlet_classes:20", "pathological:1", "shards:1"]),
    seed=st.integers(0, 2**31),
)
def test_any_labels_are_divided_soundly_or_refused(labels: list[int], peers: int, partition: str, seed: int) -> None:
    y = torch.tensor(labels)
    x = torch.arange(len(y))[:, None].double()
    try:
        data = federate(x, y, x, y, peers=peers, partition=partition, seed=seed)
    except BadInput:
        assert partition.startswith(("pathological", "shards"))  # too few samples of the scarcest class
        return
    index = data.train.index.tolist()
    assert len(index) == len(set(index)) and len(data) == peers
    assert int(data.train.counts.min()) >= 1 and int(data.test.counts.min()) >= 1
    if partition.startswith(("iid", "dirichlet")):
        assert sorted(index) == list(range(len(y)))
    if partition.startswith("pathological"):
        assert ((table(data) > 0).sum(1) == int(partition[-1])).all()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dirichlet", "above 0, as in 'dirichlet:0.1'"),
        ("dirichlet:0", "above 0"),
        ("dirichlet:-1", "above 0"),
        ("dirichlet:inf", "above 0"),
        ("dirichlet_classes:x", "above 0"),
        ("pathological:2.5", "whole number"),
        ("pathological:0", "whole number"),
        ("shards:", "whole number"),
        ("iid:3", "takes no number"),
    ],
)
def test_a_wrong_number_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse(text)


def test_an_unknown_partition_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'dirichlet'"):
        parse("dirchlet:0.1")


@pytest.mark.parametrize(
    ("partition", "options", "says"),
    [
        ("pathological:11", {"peers": 5}, "11 classes per peer, but the data have 10"),
        ("shards:11", {"peers": 5}, "11 classes per peer, but the data have 10"),
        ("iid", {"peers": 2001}, "2000 training samples cannot be divided among 2001"),
        ("iid", {"peers": 0}, "peers is 0"),
        ("iid", {"peers": None}, "Say among how many peers"),
        ("iid", {"peers": 5, "samples": 0}, "samples is 0"),
        ("iid", {"peers": 5, "samples": 401}, "samples=401 is more than any peer has"),
        ("iid", {"peers": 5, "reuse": True}, "reuse=True is a form of"),
        ("natural", {"peers": 5}, "needs the user"),
        ("pathological:2", {"peers": 2000}, "no training sample"),
    ],
)
def test_what_cannot_be_divided_is_refused(partition: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        divided(partition, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("y", [torch.arange(20) - 1, torch.rand(20), torch.zeros(20, 2).long()])
def test_labels_that_are_no_classes_are_divided_iid_only(y: Tensor) -> None:
    x = torch.zeros(20, 3)
    data = federate(x, y, x, y, peers=4)
    assert data.classes is None and data.train.counts.tolist() == [5] * 4
    with pytest.raises(BadInput, match="not one whole number"):
        federate(x, y, x, y, peers=4, partition="dirichlet:1")


def test_users_that_cannot_be_peers_are_refused() -> None:
    x, y = pool(10, 2)
    users = torch.tensor([0] * 9 + [1])
    with pytest.raises(BadInput, match="Only 1 of 2 users"):
        federate(x, y, users=users, partition="natural")
    assert len(federate(x, y, users=users, partition="natural", peers=1)) == 1
    with pytest.raises(BadInput, match="2 users, fewer than the 3 peers"):
        federate(x, y, users=users, partition="natural", peers=3)


def test_a_peer_without_test_samples_is_refused() -> None:
    x, y = pool(20, 2)
    with pytest.raises(BadInput, match="no test sample"):
        federate(x, y, x[:4], torch.zeros(4).long(), peers=2, partition="pathological:1")
