"""The map of the house in the README is the list of layers that `make lint` checks."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_the_readmes_map_is_the_list_of_layers():
    [layers] = [it["layers"] for it in LAYERS if it["name"] == "the rooms of the house"]
    lines = re.findall(r"^  (\w+(?:/|\.py).*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    rooms = [re.findall(r"(\w+)(?:/|\.py)(?:\s|$)", line.partition("   ")[0]) for line in lines]
    flat = [room for line in rooms for room in line]
    position = {room: number for number, layer in enumerate(reversed(layers)) for room in layer.split(" | ")}
    assert sorted(flat) == sorted(position)
    assert [position[room] for room in flat] == sorted(position[room] for room in flat)


def test_every_room_says_what_it_is_for():
    for room in (ROOT / "src" / "kernelrl").rglob("__init__.py"):
        assert room.read_text().startswith('"""'), room
