"""What a command is asked for. The comments of fields are its --help; `[command]` of config.toml holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tyro.conf import Positional, UseAppendAction, arg

from covey.errors import BadInput

_NOT_KEPT = ("out", "resume", "config", "quiet", "checkpoint_every")  # how, not what


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `covey run` and `covey compare` have in common."""

    data: Annotated[str, arg(metavar="NAME")] = "digits"  # a name of `covey list data`, or the path of an .npz file
    peers: int = 20  # how many peers; 0: one for every user of the data
    partition: Annotated[str | None, arg(metavar="NAME[:ARG]")] = None  # dirichlet:0.1, pathological:2, iid, natural
    samples: int | None = None  # at most so many training samples per peer
    model: Annotated[str, arg(metavar="NAME")] = "mlp"  # a name of `covey list models`
    # what stays with its peer, as in classifier,head; by default the head
    personal: Annotated[str | None, arg(metavar="PREFIX[,PREFIX]")] = None

    rounds: int = 50  # local training and an exchange, so many times
    seed: int = 0  # of the data's division, the model, the graph, the mini-batches
    seeds: Annotated[str | None, arg(metavar="S,S,...")] = None  # several runs, one for each of these seeds
    lr: float = 0.1  # learning rate
    steps: int | None = None  # mini-batches of a round ...
    epochs: int | None = None  # ... or passes over a peer's own data (by default 1)
    batch: int = 32  # samples in a mini-batch; 0: all that a peer has
    momentum: float | None = None  # by default 0.9, and 0 for dfedavg and dpsgd
    nesterov: bool = False  # Nesterov's momentum
    weight_decay: float = 0.0  # added to the gradient: weight_decay times the parameters
    clip: float | None = None  # the largest norm of a peer's gradient
    decay: float = 1.0  # the learning rate is multiplied by it every round
    sam: float | None = None  # radius of sharpness-aware steps, in every phase of every method
    rho: float = 0.05  # the same radius for methods that are sharpness-aware by themselves (dfedsalt, dfedsam)
    head_lr: float | None = None  # learning rate of the personal phase; by default that of the body
    head_steps: int | None = None  # mini-batches of the personal phase ...
    # ... or passes (by default 1, for deprl 2, for ditto as the body; where steps are given, as many steps as the body)
    head_epochs: int | None = None
    finetune_lr: float = 0.001  # learning rate of fedbabu's fine-tuning, which serves only to evaluate
    finetune_epochs: int = 5  # passes of it
    # how many times these steps and epochs a peer does: several, for groups of equally many peers, as in 1,2,3,4,5; or
    # a file with a number for each peer, or with such a row for each round
    work: Annotated[str | None, arg(metavar="W[,W,...]|FILE.json")] = None
    # the probability that a peer is absent in a round, or a file with a row for each round: 1 for each peer that is
    # there, 0 for each that is not
    absent: Annotated[str | None, arg(metavar="P|FILE.json")] = None
    # what is exchanged, in few bits: sign, topk:K, signtopk:K, randk:K, qsgd:LEVELS, qtopk:K:LEVELS, identity; a K
    # below 1 is a share of each tensor; whole:sign says one thing of the whole model, not of each tensor
    compress: Annotated[str | None, arg(metavar="NAME[:ARG]")] = None
    # when: always, never, every:H, norm:C, norm:START:ADD:EVERY[:MOST], power:C0:EPS; then :tensor, :cap
    trigger: Annotated[str | None, arg(metavar="NAME[:ARG]")] = None
    # consensus step of compressed gossip: a number, auto (the default), usual, theory
    gamma: Annotated[str | None, arg(metavar="NUMBER|NAME")] = None
    feedback: bool = False  # error feedback in the place of public copies, for graphs that change
    # a field of the method itself, as in --with order=cta
    extra: Annotated[tuple[str, ...], arg(name="with", metavar="NAME=VALUE"), UseAppendAction] = ()

    # Simulated time, which changes no number of training: any of these starts the clock
    # seconds of a local step; several, for groups of equally many peers: 0.01,0.02,0.05
    step_seconds: Annotated[str | None, arg(metavar="S[,S,...]")] = None
    message_seconds: float | None = None  # seconds to set up any message, however small
    bandwidth: Annotated[str | None, arg(metavar="BITS[,BITS,...]")] = None  # bit/s of a peer's line: 100k, 2.5M, 1G
    latency: float | None = None  # seconds from the last bit sent to the last bit received
    # a line's copies to several neighbours: one after another (shared, the default), side by side, or one for all
    uplink: Literal["shared", "dedicated", "broadcast"] | None = None
    joules_per_bit: float | None = None  # energy of every bit sent
    joules_per_step: float | None = None  # energy of a local step

    evaluate_every: int = 1  # rounds between two looks at the test accuracy
    target: float | None = None  # accuracy, such as 0.93, whose first round is reported
    theory: bool = False  # at every look: gradients over all data at the mean model, DePRL's M(k)
    gradient_below: float | None = None  # report since when that gradient is smaller (asks for --theory)
    similarity: bool = False  # cosines between peers at the end: labels, heads, representations (similarity.npz)
    init: Literal["common", "heads", "all"] = "common"  # what starts different at each peer
    validation: float = 0.0  # part of each peer's training samples that is set aside and reported as `validation`
    device: str = "cpu"  # cpu, cuda, or cuda:1
    threads: int | None = None  # of the processor; 1 is often fastest for small models
    # peers worked on at once, and the fewest for which that pays; measured where not given
    chunk: Annotated[str | None, arg(metavar="N[:M]")] = None
    exact: bool = False  # add messages in the senders' order, as real peers do
    allow_unsound: bool = False  # run although the graph is not what the method assumes
    out: Annotated[Path | None, arg(metavar="DIR")] = None  # a new folder for what the run writes
    resume: Annotated[Path | None, arg(metavar="DIR")] = None  # go on with the run that stopped in this folder
    checkpoint_every: int | None = None  # rounds between checkpoints; by default so that they cost little
    config: Annotated[Path | None, arg(metavar="FILE")] = None  # repeat a run from its config.toml
    quiet: bool = False  # no progress, no table

    def all_seeds(self) -> list[int]:
        if not self.seeds:
            return [self.seed]
        parts = self.seeds.split(",")
        if not all(part.strip().isdigit() for part in parts):
            raise BadInput(f"--seeds {self.seeds} is no list of whole numbers, such as 1,2,3.")
        seeds = [int(part) for part in parts]
        if len(set(seeds)) < len(seeds):
            raise BadInput(f"--seeds {self.seeds} names a seed twice.")
        return seeds

    def kept(self) -> dict[str, Any]:
        """What config.toml says of the command."""
        kept = {name: value for name, value in asdict(self).items() if name not in _NOT_KEPT}
        return {"name": type(self).__name__.lower()} | kept


@dataclass(frozen=True, kw_only=True)
class Run(Settings):
    """Train peers by one method."""

    algorithm: Annotated[Positional[str], arg(metavar="ALGORITHM")]  # a name of `covey list algorithms`
    # a name of `covey list graphs`; by default ring, or server or isolated where the method wants that
    graph: Annotated[str | None, arg(metavar="NAME[:ARG]")] = None


@dataclass(frozen=True, kw_only=True)
class Compare(Settings):
    """Train peers by several methods and print one table."""

    algorithms: Annotated[Positional[tuple[str, ...]], arg(metavar="ALGORITHM")]  # names of `covey list algorithms`
    graph: Annotated[str, arg(metavar="NAME[:ARG]")] = "ring"  # of methods that gossip
    server: Annotated[str, arg(metavar="NAME[:ARG]")] = "server"  # of methods with a server
    directed: Annotated[str | None, arg(metavar="NAME[:ARG]")] = None  # of push-sum methods; by default that of --graph


def from_kept(kept: Mapping[str, Any], where: Path) -> Run | Compare:
    """The command that a config.toml holds."""
    kind = {"run": Run, "compare": Compare}.get(kept.get("name", ""))
    if kind is None:
        raise BadInput(f"{where} was not written by `covey run` or `covey compare`, so they cannot repeat it.")
    types = get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, value in kept.items():
        if name == "name":
            continue
        if name not in types or name in _NOT_KEPT:
            raise BadInput(f"The [command] section of {where} has a setting that is not known here: {name}.")
        values[name] = tuple(value) if isinstance(value, list) else value
        if not fits(values[name], types[name]):
            raise BadInput(f"The [command] section of {where} has an unfit value: {name} = {value!r}.")
    try:
        return kind(**values)
    except TypeError as problem:
        raise BadInput(f"The [command] section of {where} is incomplete ({problem}).") from problem


def fits(value: Any, hint: Any) -> bool:
    """Whether a value from a file is of a field's type."""
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if any(get_origin(one) is Literal for one in get_args(hint)):
        return any(fits(value, one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(isinstance(one, str) for one in value)
    kinds = get_args(hint) or (hint,)
    return type(value) in kinds or (float in kinds and type(value) is int)
