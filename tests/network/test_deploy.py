"""The unit and the container file: their syntax, and that what they name exists."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from covey.cli.main import parse
from covey.cli.peer import Go, Peer

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "covey-peer@.service"
CONTAINER = ROOT / "deploy" / "Containerfile"
# https://docs.docker.com/reference/dockerfile/
_INSTRUCTIONS = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=True)
    found.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    found.read_string(UNIT.read_text())
    return found


def test_the_unit_runs_a_command_that_exists_and_treats_its_exit_codes() -> None:
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"].replace("%i", "north"))
    assert Path(program).name == "covey"
    command = parse(words)
    assert isinstance(command, Peer) and isinstance(command.do, Go) and command.do.file == Path(words[-1])
    assert service["RestartPreventExitStatus"] == "2" and service["SuccessExitStatus"] == "130"
    assert set(unit().sections()) == {"Unit", "Service", "Install"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_has_nothing_to_say_against_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "covey"  # verify wants the program to be there, and the user
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = UNIT.read_text().replace("/opt/covey/bin/covey", str(program)).replace("User=covey", "User=root")
    copy = tmp_path / "covey-peer@north.service"
    copy.write_text(text)
    said = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert (said.returncode, [line for line in said.stderr.splitlines() if "covey-peer" in line]) == (0, []), (
        said.stderr
    )
    copy.write_text(text.replace("Restart=", "Restat="))  # it would have said so
    wrong = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert "Restat" in wrong.stderr


def test_the_container_copies_what_there_is_and_runs_what_there_is() -> None:
    text = re.sub(r"\\\n", " ", CONTAINER.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    said = [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]
    assert said[0][0] == "FROM" and {name for name, _ in said} <= _INSTRUCTIONS
    for name, rest in said:
        if name == "COPY":
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
    entry, words = (next(rest for name, rest in said if name == what) for what in ("ENTRYPOINT", "CMD"))
    program, *arguments = [*eval(entry), *eval(words)]
    command = parse(arguments)
    assert program == "covey" and isinstance(command, Peer) and isinstance(command.do, Go)
