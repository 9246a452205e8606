"""docs/protocol.md has the bytes of wire.py: its tables are read, and its example is cut by them."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from covey.compress import Message
from covey.network.codec import encode_row
from covey.network.wire import HEADER, NUMBERED, Frame, Hello, Kind, Standing, header, pack_ack, pack_hello, parse

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
EXAMPLE = bytes.fromhex(*re.findall(r"^```hex frame\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
FRAME = Frame(
    Kind.SAID,
    bytes(range(16)),
    round=7,
    sequence=9,
    things=1,
    body=b"".join(encode_row([Message.of(torch.tensor([[1.0, -2.0]]))])),
)


def table(head: str) -> list[list[str]]:
    """The cells of the rows below this head."""
    rows = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_example_is_a_frame() -> None:
    assert header(FRAME) + bytes(FRAME.body) == EXAMPLE
    assert parse(EXAMPLE, FRAME.run) == Frame(**vars(FRAME) | {"body": EXAMPLE[HEADER:]})


def test_the_table_cuts_the_example_into_its_fields() -> None:
    fields, end = dict[str, bytes](), 0
    for at, size, name, _ in table("| at | bytes | field |"):
        assert int(at) == end
        end += int(size)
        fields[name] = EXAMPLE[int(at) : end]
    assert end == HEADER and fields.pop("magic") == b"covy" and fields.pop("run") == FRAME.run
    found = {name: int.from_bytes(value, "little") for name, value in fields.items()}
    length = len(EXAMPLE) - HEADER
    assert found == {"version": 1, "kind": Kind.SAID, "call": 0, "round": 7, "sequence": 9, "length": length,
                     "things": 1, "zero": 0}  # fmt: skip


def test_every_kind_is_explained() -> None:
    rows = table("| number | kind | sequence |")
    assert [(int(number), name) for number, name, *_ in rows] == sorted((kind.value, kind.name) for kind in Kind)
    assert {name for _, name, numbered, *_ in rows if numbered == "yes"} == {kind.name for kind in NUMBERED}


def test_the_bodies_have_the_sizes_that_are_told() -> None:
    one, two = Standing(call=0), Standing(call=1)
    greeting, stream, ack, _ = (re.findall(r"\((\d+)[;)]", text) for _, _, text in table("| body | bytes |"))
    told = [int(size.split()[0]) for _, size, _ in table("| body | bytes |")]
    empty, full = len(pack_hello(Hello(1, 0))), len(pack_hello(Hello(1, 0, (one, two))))
    assert told[0] == sum(map(int, greeting)) == empty
    assert told[1] == sum(map(int, stream)) and 2 * told[1] == full - empty
    assert told[2] == sum(map(int, ack)) == len(pack_ack([(0, 0, 0, 0)]))
