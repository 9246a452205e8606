"""What the documents say is so: their Python runs, their commands are understood, their links and paths lead somewhere,
and every field that a run writes is explained."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

import covey
from covey import SGD, algorithms, graphs
from covey.cli import methods, peer
from covey.cli.adapt import Adapt
from covey.cli.main import parse
from covey.cli.settings import Compare, Run
from covey.data import partition
from engines import test_conformance as rules
from engines.table import PEERS, Case

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_HERE = {"checkpoint/", "src/covey/algorithms/yourmethod.py"}  # paths that a run, or a reader, makes
every = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the documents write goes to an empty folder; models are tiny, so one thread."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks: what stands behind the fence, and the text."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """`covey …` at the start of an indented line (continued by a backslash), or in a code span."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL).replace("\\\n", " ")
    lines = re.findall(r"^ {4,}(covey .*)$", text, re.MULTILINE)
    spans = re.findall(r"`(covey [a-z][^`…]* [^`…]*)`", text.replace("\n", " "))
    return [line.split("  #")[0].strip() for line in lines + spans]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_python_runs(page: Path) -> None:
    """The blocks of a page are one program. A second word behind the fence says why a block is not run."""
    program: dict[str, Any] = {}
    for fence, text in blocks(page):
        kind, _, why_not = fence.partition(" ")
        if kind == "python":
            code = compile(text, page.name, "exec")
            if not why_not:
                exec(code, program)


@every
def test_commands_are_understood(page: Path) -> None:
    kept = {name: value for name, value in Run(algorithm="dfedalt").kept().items() if value is not None}
    for command in commands(page):
        words = shlex.split(command)[1:]
        for place, word in enumerate(words):  # a run to go on with
            if word in ("--resume", "--config"):
                path = Path(words[place + 1]) / ("config.toml" if word == "--resume" else "")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(tomli_w.dumps({"command": kept}))
        settings = parse(words)
        if isinstance(settings, Run | Compare):
            understood(settings)


def understood(settings: Run | Compare) -> None:
    """Every name that the command gives is known, and the methods may use the graphs."""
    assert settings.data in covey.data.NAMES or settings.data.endswith(".npz")
    assert settings.model in covey.models.NAMES
    if settings.partition is not None:
        partition.parse(settings.partition)
    settings.all_seeds()
    n = settings.peers or 20
    for name in [settings.algorithm] if isinstance(settings, Run) else settings.algorithms:
        needs = methods.build(name, settings).needs
        if isinstance(settings, Compare):
            if name == "local":
                continue
            graph = {"server": settings.server, "column-or-pull": settings.directed}.get(needs) or settings.graph
        else:
            graph = settings.graph or {"server": "server", "any": "isolated"}.get(needs, "ring")
        graphs.check(graphs.parse(graph, n).bound(0, torch.ones(n)), needs, name)


@every
def test_flags_exist(page: Path) -> None:
    """`--flag` in a code span, whatever follows it."""
    kinds = (Run, Compare, Adapt, peer.Check, peer.Init, peer.Establish, peer.Sign, peer.Audit, peer.Say, peer.Up)
    known = {one.name.replace("_", "-") for kind in kinds for one in fields(kind)} - {"extra"} | {"with"}
    for flag in re.findall(r"`--([a-z-]+)", page.read_text()):
        assert flag in known, flag


@every
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("http"):
            assert (page.parent / target.partition("#")[0]).is_file(), target
    for path in re.findall(r"`((?:\w+/)*\w+\.py|(?:\w+/)+)`", text):
        homes = (ROOT, ROOT / "src", ROOT / "src/covey", ROOT / "tests/theory")
        assert path in NOT_HERE or any((home / path).exists() for home in homes), path


def test_something_is_checked() -> None:
    """The patterns above find what is there."""
    assert {page.name for page in PAGES} >= {"README.md", "design.md", "results.md", "speed.md", "data.md"}
    assert sum(fence.startswith("python") for page in PAGES for fence, _ in blocks(page)) >= 8
    found = [command for page in PAGES for command in commands(page)]
    assert len(found) >= 8 and any("--batch 10" in one for one in found)  # a continued line


def test_a_wrong_command_would_be_noticed() -> None:
    for words in (["run", "dfedalt", "--graphs", "ring"], ["run"], ["lists"]):
        with pytest.raises(covey.BadInput):
            parse(words)
    for command in ("run dfedpg", "run dfedalt --graph rings", "run sgp --partition diri:1", "run dpsgd --with a=1",
                    "run dfedavg --graph random_directed:3"):  # fmt: skip
        with pytest.raises(covey.BadInput):
            understood(parse(command.split()))  # type: ignore[arg-type]


def test_every_field_of_a_run_is_explained() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    data = covey.data.load("digits", peers=4, partition="iid", samples=10)
    task = covey.Task.from_module(covey.models.build("mlp", data), data, personal="head")
    work = SGD(0.1, batch=5)
    for method, graph in ((algorithms.FedAvg(work), graphs.server(4, 0.5)),
                          (algorithms.DFedPGP(work, work), graphs.random_directed(4, 2)),
                          (algorithms.CHOCO(work, covey.compress.Sign()), graphs.ring(4))):  # fmt: skip
        folder = Path(type(method).__name__)
        covey.simulate(method, task, graph, rounds=1, out=folder, validation=0.2, target=0.5)
        written = (folder / "metrics.jsonl").read_text(), (folder / "summary.json").read_text()
        names = {one.name for one in folder.iterdir()} - {"checkpoint"}
        for name in set().union(*(keys(json.loads(part)) for part in written), names):
            assert f"`{name}`" in text, name


def keys(value: Any) -> set[str]:
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(keys(one) for one in value.values()))


def test_data_sets_partitions_and_dependencies_are_complete() -> None:
    data, why = (ROOT / "docs" / "data.md").read_text(), (ROOT / "docs" / "dependencies.md").read_text()
    assert all(f"`{name}`" in data for name in covey.data.NAMES)
    assert all(re.search(rf"^\| `{name}[`:]", data, re.MULTILINE) for name in partition.PARTITIONS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for group in project["optional-dependencies"].values() for one in group)]
    wanted = {re.split(r"[<>=~ \[]", one)[0] for one in wanted}
    assert set(re.findall(r"^\| `([\w-]+)` \|", why, re.MULTILINE)) == wanted


def test_the_house_is_as_it_is_told() -> None:
    """The table of CONTRIBUTING.md has the layers that import-linter enforces, lowest first."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    told = [
        re.findall(r"`(\w+)(?:\.py|/)`", line.split("|")[1]) for line in text.splitlines() if line.startswith("| `")
    ]
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [re.findall(r"\w+", layer) for layer in reversed(contract["layers"])]
    assert [sorted(names) for names in told] == [sorted(names) for names in layers], "bring the table up to date"


def test_the_skeleton_passes_the_conformance_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that CONTRIBUTING.md offers, as printed."""
    [text] = [text for fence, text in blocks(ROOT / "CONTRIBUTING.md") if fence == "python"]
    path = tmp_path / "yourmethod.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("yourmethod", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "yourmethod", module)
    spec.loader.exec_module(module)
    case = Case("yourmethod", module.YourMethod(SGD(0.2, epochs=1, batch=4, momentum=0.9)), lambda: graphs.ring(PEERS))
    rules.test_a_file_is_a_page_and_says_what_it_is(path)
    tests = [test for name, test in vars(rules).items() if name.startswith("test_")]
    held_to = [test for test in tests if "case" in inspect.signature(test).parameters]
    assert len(held_to) >= 10
    for test in held_to:
        more = {"tmp_path": tmp_path / test.__name__} if "tmp_path" in inspect.signature(test).parameters else {}
        test(case, **more)
