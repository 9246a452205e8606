"""What surrounds the run of a peer: identities, the check, the status, the audit log."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from covey.cli import peer
from covey.cli.site import site_of
from covey.cli.wiring import neighbours_of, transport_of
from covey.errors import BadInput
from covey.network import audit as log
from covey.network import authority, identity
from covey.network.check import check as greet_all
from covey.network.settings import read_settings

ADDRESS = "status.address"  # in the peer's folder: where its status is shown


def init(asked: peer.Init, console: Console) -> None:
    key, request, fingerprint = identity.create(asked.name, asked.folder)
    _print(console, f"{key}: the private key; it stays on this machine")
    _print(console, f"{request}: the request; have the authority sign it")
    _print(console, f"{asked.name} {fingerprint}")
    _print(console, "That line is for the files of all neighbours; tell it to them by another way than the network.")


def establish(asked: peer.Establish, console: Console) -> None:
    at = authority.establish(asked.folder, asked.days)
    _print(console, f"{at}: the authority's certificate, of which every peer needs a copy; its key stays here")


def sign(asked: peer.Sign, console: Console) -> None:
    if not asked.requests:
        raise BadInput("Name the requests to sign, as in: covey peer authority sign north.csr")
    for request in asked.requests:
        name, at, fingerprint = authority.sign(request, asked.folder, asked.days)
        _print(console, f"{at}: for {name}, whose key is {fingerprint}; is that what {name} says it is?")


def check(asked: peer.Check, console: Console) -> int:
    """0 where all is well, 2 where something is not."""
    settings = read_settings(asked.file)
    site = site_of(settings, asked.file.absolute().parent)
    _say_of_certificate(settings, console)
    _print(console, f"{settings.name}: the file, the data, the model and the graph are sound.")

    def told(name: str, sentence: str | None) -> None:
        _print(console, f"  {name}: {'is there, and means the same run' if sentence is None else sentence}")

    found = greet_all(lambda report: transport_of(site, "check", report), neighbours_of(settings), asked.seconds, told)
    wrong = {name: sentence for name, sentence in found.items() if sentence is not None}
    if not wrong:
        _print(console, f"All {len(found)} neighbours are there and mean the same run; start it with: covey peer run")
        return 0
    for name, sentence in wrong.items():
        _print(console, f"! {name}: {sentence}")
    return 2


def _say_of_certificate(settings: Any, console: Console) -> None:
    own = settings.identity
    if own is None:
        return
    loaded = identity.load(settings.name, own.key, own.certificate, own.authority)
    _print(console, f"{settings.name} {loaded.fingerprint}")
    _print(console, loaded.warning() or f"The certificate is good until {loaded.ends:%Y-%m-%d}.")


def status(asked: peer.Say, console: Console) -> None:
    settings = read_settings(asked.file)
    now = ask(settings.network.folder)
    if now is None:
        raise BadInput(f"{settings.name} is not running here; start it with: covey peer run {asked.file}")
    console.print_json(data=now) if asked.json else console.print(table_of(now))


def ask(folder: Path) -> Mapping[str, Any] | None:
    """What a peer that writes into this folder says of itself; None where it does not run."""
    try:
        address = (folder / ADDRESS).read_text().strip()
        with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
            return json.loads(answer.read())
    except (OSError, urllib.error.URLError, ValueError):
        return None


def table_of(now: Mapping[str, Any]) -> Table:
    losses = ", ".join(f"{phase} {value:.3g}" for phase, value in now["losses"].items())
    waits = f", waits for {', '.join(now['waiting_for'])}" if now["waiting_for"] else ""
    title = f"{now['name']}: round {now['round'] + 1} of {now['rounds']}, {now['doing']}{waits}"
    made = Table(title=title, box=None, title_justify="left", pad_edge=False)
    for head in ("neighbour", "", "since", "missed", "said", "heard", "why"):
        made.add_column(head)
    for name, far in now["neighbours"].items():
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(far["since"]))
        sizes = (f"{far[key] / 1e6:.2f} MB" for key in ("bytes_out", "bytes_in"))
        made.add_row(name, far["presence"], since, str(far["missed"]), *sizes, far["why"])
    caption = [f"training loss: {losses}" if losses else "", now["last_error"]]
    made.caption = "\n".join(one for one in caption if one) or None
    made.caption_justify = "left"
    return made


def audit(asked: peer.Audit, console: Console) -> None:
    end = log.verify(asked.file)
    sizes: dict[str, int] = {}
    links = {log.START}
    for line in log.read_log(asked.file):
        links.add(line["chain"])
        sizes[line["to"]] = sizes.get(line["to"], 0) + line["bytes"]
    if asked.link is not None and asked.link not in links:
        raise log.Tampered(f"{asked.file} no longer has the link {asked.link[:16]}…; lines were taken out of it.")
    for name, size in sorted(sizes.items()):
        _print(console, f"  to {name or 'nobody (torn lines)'}: {size} bytes")
    _print(console, f"{asked.file}: {end.lines} lines, and the chain holds. Its last link: {end.link}")


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
