"""peer.toml: what it means, and one sentence for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from covey.errors import BadInput
from covey.network.settings import read_settings

PRINT = "sha256:" + "a" * 64
GOOD = f"""
name = "north"
roster = ["north", "east", "south"]

[run]
rounds = 20
graph = "full"

[algorithm]
name = "dfedalt"
lr = 1
epochs = 2

[model]
name = "mlp"

[data]
file = "north.npz"
labels = ["ill", "well"]

[identity]
key = "north.key"
certificate = "/etc/covey/north.crt"
authority = "authority.crt"

[network]
folder = "state"
listen = "0.0.0.0:7001"

[[neighbours]]
name = "east"
fingerprint = "{PRINT}"
address = "east.example.org:7001"

[[neighbours]]
name = "south"
fingerprint = "{PRINT}"
"""


def read(folder: Path, text: str):
    path = folder / "peer.toml"
    path.write_text(text)
    return read_settings(path)


def test_what_a_file_means(tmp_path: Path) -> None:
    made = read(tmp_path, GOOD)
    assert (made.name, made.roster, made.run.rounds, made.run.seed) == ("north", ("north", "east", "south"), 20, 0)
    assert made.algorithm == {"name": "dfedalt", "lr": 1, "epochs": 2}
    assert made.identity is not None and made.identity.key == tmp_path / "north.key"
    assert made.identity.certificate == Path("/etc/covey/north.crt") and made.data.file == tmp_path / "north.npz"
    assert [(one.name, one.address) for one in made.neighbours] == [("east", "east.example.org:7001"), ("south", None)]
    assert (
        made.network.patience == 30.0 and made.network.status == "127.0.0.1:0" and made.data.labels == ("ill", "well")
    )


MISTAKES = {
    'rounds = 20|roundz = 20': "There is no setting 'roundz' in [run]; did you mean 'rounds'?",
    'rounds = 20|': "[run] lacks 'rounds', which is a whole number.",
    'rounds = 20|rounds = "20"': "rounds = '20' in [run] should be a whole number.",
    'rounds = 20|rounds = true': "rounds = true in [run] should be a whole number.",
    'rounds = 20|rounds = 0': "rounds, evaluate_every and threads in [run] must be 1 or more.",
    'rounds = 20|rounds = 20\ninit = "head"': "init = 'head' in [run] should be one of 'common', 'heads', 'all'.",
    '[run]|[runs]': "There is no setting 'runs' in the file; did you mean 'run'?",
    'name = "dfedalt"|': "[algorithm] lacks 'name', which is a name of `covey list algorithms`.",
    'file = "north.npz"|': "[data] wants one of 'file' and 'entry'.",
    'file = "north.npz"|file = "north.npz"\nentry = "a:b"': "[data] wants one of 'file' and 'entry'.",
    'file = "north.npz"|file = 3': "file = 3 in [data] should be the path of a file.",
    'labels = [|classes = 3\nlabels = [': "[data] says classes = 3, and names 2 labels.",
    '"well"|5': "labels[1] = 5 in [data] should be a text.",
    'name = "mlp"|': "[model] wants one of 'name' and 'entry'.",
    '["north", "east", "south"]|["north", "east"]': "The neighbour 'south' is not in the roster (north, east).",
    '["north", "east", "south"]|["west", "east", "south"]': "'north' is not in the roster (west, east, south); add it "
    "there, at every peer.",
    '["north", "east", "south"]|["north", "north"]': "The roster must name at least two peers, each once.",
    '"south"]|"South Wing"]': "'South Wing' cannot be a peer's name; use at most 64 small letters, digits, '-' and '.',"
    " such as north-wing or peer.example.org.",
    'name = "south"|name = "east"': "[[neighbours]] names 'east' twice, or it is this peer itself.",
    'name = "south"|nam = "south"': "There is no setting 'nam' in [[neighbours]] number 2; did you mean 'name'?",
    f'"{PRINT}"\naddress|"sha256:12"\naddress': "A fingerprint is the line sha256:… of `covey peer init`, and the "
    "neighbour 'east' has 'sha256:12'.",
    '"east.example.org:7001"|"east.example.org"': "'east.example.org' is no address; write host:port, such as "
    "east.example.org:7001 or [::1]:7001.",
    'listen = "0.0.0.0:7001"|': "'south' has no address and this peer does not listen, so neither can dial; give one of"
    " them.",
    'listen = "0.0.0.0:7001"|plaintext = true\nlisten = "0.0.0.0:7001"': "plaintext = true is for addresses of this "
    "machine, such as 127.0.0.1:7001, not 0.0.0.0:7001.",
    'listen = "0.0.0.0:7001"|listen = "0.0.0.0:7001"\npatience = -1': "patience = -1.0 in [network] must be above 0 "
    "seconds.",
    'listen = "0.0.0.0:7001"|listen = "0.0.0.0:7001"\ngrace = -1': "grace = -1.0 in [network] is a number of seconds, "
    "0 or more.",
    '[network]|[network]\nfolders = 1': "There is no setting 'folders' in [network]; did you mean 'folder'?",
}  # fmt: skip


@pytest.mark.parametrize("change", MISTAKES)
def test_mistakes(tmp_path: Path, change: str) -> None:
    old, new = change.split("|")
    assert old in GOOD
    with pytest.raises(BadInput) as refusal:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert str(refusal.value) == f"{tmp_path / 'peer.toml'}: {MISTAKES[change]}"


def test_no_identity(tmp_path: Path) -> None:
    start, end = GOOD.index("[identity]"), GOOD.index("[network]")
    with pytest.raises(BadInput, match=r"The table \[identity\] is missing; make a key"):
        read(tmp_path, GOOD[:start] + GOOD[end:])


def test_no_toml(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not TOML"):
        read(tmp_path, "name = north")
    with pytest.raises(BadInput, match="cannot be read"):
        read_settings(tmp_path / "none.toml")


def test_what_tomli_w_writes_is_read(tmp_path: Path) -> None:
    import tomllib

    assert read(tmp_path, tomli_w.dumps(tomllib.loads(GOOD))) == read(tmp_path, GOOD)
