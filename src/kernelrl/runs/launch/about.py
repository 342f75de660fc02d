"""What launched a run, so that a node with other code says so before it takes part."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

from kernelrl import __version__
from kernelrl.errors import UserError
from kernelrl.records import write_json

FILE = "about.json"
PACKAGES = ("torch", "transformers", "trl", "accelerate")


def write(folder: Path) -> None:
    """Note this process's versions in the folder of a launch."""
    write_json(folder / FILE, _about())


def check_same(folder: Path, node: str) -> None:
    """Check that this node has the versions that launched the run.

    Raises:
        UserError: names the node and what differs.
    """
    there = json.loads((folder / FILE).read_text())
    here = _about()
    differing = [f"{name} {here[name]} instead of {there[name]}" for name in here if here[name] != there[name]]
    if differing:
        raise UserError(f"{node} has {', '.join(differing)}; install on every node what launched the run")


def _about() -> dict[str, str]:
    package = Path(__file__).parents[2]
    code = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        code.update(path.read_bytes())
    about = {"kernelrl": __version__} | {name: version(name) for name in PACKAGES}
    return about | {"kernelrl's code": code.hexdigest()[:12]}
