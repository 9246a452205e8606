"""The audit log: what it says, and that nobody changes a line unseen."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.network.audit import Audit, Tampered, read_log, verify


def log_of(path: Path, count: int = 5) -> Audit:
    log = Audit(path)
    for n in range(count):
        log.leaving("east", n, "SAID", [b"head", memoryview(bytes(n))])
    log.close()
    return log


def test_what_a_line_says_and_how_links_are_made(tmp_path: Path) -> None:
    """The chain by its definition, recomputed from the text of the file alone."""
    path = tmp_path / "audit.jsonl"
    log_of(path, 2)
    link = "0" * 64
    for n, raw in enumerate(path.read_text().splitlines()):
        line = json.loads(raw)
        assert (line["n"], line["to"], line["round"], line["kind"], line["bytes"]) == (n, "east", n, "SAID", 4 + n)
        assert line["digest"] == hashlib.sha256(b"head" + bytes(n)).hexdigest()
        text = raw[: raw.rindex(', "chain"')] + "}"
        link = hashlib.sha256((link + text).encode()).hexdigest()
        assert line["chain"] == link
    assert verify(path).link == link and verify(path).lines == 2


def test_it_goes_on_after_a_stop(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log_of(path)
    assert verify(path).lines == 5
    log_of(path)
    assert verify(path).lines == 10 and [line["n"] for line in read_log(path)] == list(range(10))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_change_is_seen(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A byte changed, a line taken out, two swapped."""
    path = tmp_path_factory.mktemp("log") / "audit.jsonl"
    log_of(path)
    content = path.read_bytes()
    kind = data.draw(st.sampled_from(["byte", "drop", "swap"]))
    lines = content.splitlines(keepends=True)
    if kind == "byte":
        at = data.draw(st.integers(0, len(content) - 1))
        other = data.draw(st.integers(0, 255).filter(lambda value: value != content[at]))
        changed = content[:at] + bytes([other]) + content[at + 1 :]
        if at == len(content) - 1:
            return  # the last newline: a torn line, which is told apart below
    elif kind == "drop":
        del lines[data.draw(st.integers(0, 3))]
        changed = b"".join(lines)
    else:
        k = data.draw(st.integers(0, 3))
        lines[k], lines[k + 1] = lines[k + 1], lines[k]
        changed = b"".join(lines)
    path.write_bytes(changed)
    with pytest.raises(Tampered):
        verify(path)


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_a_line_that_a_crash_cut_off_stays_and_is_told_of(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "audit.jsonl"
    log_of(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert verify(path).lines == 4 and verify(path).torn
    log_of(path, 1)
    kinds = [line["kind"] for line in read_log(path)]
    assert verify(path).lines == 6
    assert kinds == ["SAID"] * 4 + (["SAID"] if cut == 1 else ["torn"]) + ["SAID"]
    assert path.read_bytes().startswith(whole[:-cut])  # nothing was taken back
    path.write_bytes(path.read_bytes().replace(b'"bytes": 7', b'"bytes": 9', 1))
    with pytest.raises(Tampered):
        verify(path)


def test_lines_cut_off_at_the_end_are_seen_by_who_kept_the_last_link(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    kept = log_of(path).link
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert verify(path).link != kept
