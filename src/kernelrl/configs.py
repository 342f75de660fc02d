"""Finding and composing the Hydra configs, and explaining an override that does not fit."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from kernelrl.errors import UserError

Model = TypeVar("Model", bound=BaseModel)
HYDRA_VERSION_BASE = "1.3"
COMMON = "common"
"""File of a config group that its options share, and that is no option itself."""
ConfigError = (HydraException, OmegaConfBaseException, yaml.YAMLError)
"""What Hydra and OmegaConf raise about a config or an override."""
CLOSED = ("curate", "decontamination", "eval", "executor", "filters", "grpo", "launcher", "report", "search", "sft")
"""Nodes of the config whose keys are all known. What `tasks`, `reward` and the others hold depends on the option."""


def config_dir() -> Path:
    """The folder of the configs: inside the installed package, or at the root of the checkout."""
    package = Path(__file__).parent
    shipped = package / "configs"
    return shipped if shipped.is_dir() else package.parents[1] / "configs"


def compose_config(command: str, overrides: Sequence[str] = ()) -> DictConfig:
    """The config of a command, as Hydra composes it on the command line (interpolations not resolved).

    Raises:
        UserError: an override does not fit; one line, with the close match.
    """
    try:
        cfg = _compose(command, overrides)
    except ConfigError as error:
        raise explain(error, command) from None
    check(cfg, command, overrides)
    return cfg


def to_dict(node: DictConfig) -> dict[str, Any]:
    """A node of the config as a plain dictionary, interpolations filled in."""
    return cast(dict[str, Any], OmegaConf.to_container(node, resolve=True))


def read_node(model: type[Model], node: DictConfig | Mapping[str, Any], name: str) -> Model:
    """A node of the config as what it describes.

    Raises:
        UserError: names the value that cannot be used.
    """
    try:
        return model.model_validate(to_dict(node) if isinstance(node, DictConfig) else dict(node))
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, (name, *wrong["loc"])))
        raise UserError(f"{key}={wrong['input']!r}: {wrong['msg']}") from None


def explain(error: Exception, command: str) -> UserError:
    """One line for what Hydra says about a config: the thing, the value, and the close match."""
    text = str(error)
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return UserError(f"config file {error.problem_mark.name}, line {error.problem_mark.line + 1}: {error.problem}")
    if missing := re.search(r"Could not find '(?:([^']+)/)?([^'/]+)'", text):
        group, option = missing.groups(default="")
        return UserError(f"no option {option!r} in config group {group!r}{_close_match(option, _options(group))}")
    if unknown := re.search(r"Could not (?:override|delete(?: from config\.)?) '([^'\s]+)", text):
        name = unknown.group(1)
        if owners := _owners(name, command):
            return UserError(f"unknown override {name!r}; a setting of {' and of '.join(owners)}: add that")
        return UserError(f"unknown override {name!r}{_close_match(name, [*_defaults(command), *_groups()])}")
    first, *rest = (line.strip() for line in text.splitlines() if line.strip())
    cause = str(error.__cause__).splitlines()[0] if error.__cause__ else ""
    key = next((line for line in rest if line.startswith("full_key:")), "")
    if lacking := re.search(r"Interpolation key '([^']+)' not found|full_key: (\S+)", text):
        name = lacking[1] or lacking[2]
        if name in _defaults(command):
            group = name.partition(".")[0]
            return UserError(
                f"{name} is not set: a config file of yours for {group!r} lacks it, as one of an older version does; "
                f"`kernelrl {command} --cfg job` without that file shows its default"
            )
    return UserError("; ".join(dict.fromkeys(part for part in (first, cause, key) if part)))


def check_overrides(overrides: Sequence[str]) -> None:
    """Check that every word is an override, and names an option where it is one of a config group.

    Raises:
        UserError: names the word that does not.
    """
    parser = OverridesParser.create()
    for override in overrides:
        try:
            parsed = parser.parse_override(override)
        except HydraException:
            parsed = None
        if parsed is None or not parsed.key_or_group:
            raise UserError(f"{override!r} is not an override; write key=value, e.g. seed=1 or recipe=toy")
        group = parsed.key_or_group
        if group in _groups() and isinstance(parsed.value(), int | float | dict):
            raise UserError(f"{override}: {group} is a config group{_close_match('', _options(group))}")


def swept(overrides: Sequence[str]) -> set[str]:
    """The keys of the overrides that give several values."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    return {str(override.input_line).partition("=")[0] for override in parsed if override.is_sweep_override()}


def check(cfg: DictConfig, command: str, overrides: Sequence[str]) -> None:
    """Check that the config has the keys of this version, and that words, numbers and switches are still that.

    A key that a config file of an older version sets would otherwise be passed over in silence.

    Args:
        overrides: of the command line; a key that one of them adds (`+key=value`) is meant.

    Raises:
        UserError: names the key, its value and the way out.
    """
    _check_keys(cfg, command, {word.lstrip("+").partition("=")[0] for word in overrides if word.startswith("+")})
    _check_types(cfg, command)


def _check_keys(cfg: DictConfig, command: str, added: set[str]) -> None:
    known = [*_defaults(command), *_groups()]
    for group in CLOSED:
        known += [f"{group}.{key}" for option in _options(group) for key in _load(group, option)]
    text = OmegaConf.to_yaml(cfg)  # interpolations as they stand: a recipe may have nodes of its own that it refers to
    known += [str(key) for key in cfg if re.search(rf"\$\{{{re.escape(str(key))}[.}}]", text)]
    nodes = {"": cfg} | {f"{group}.": cfg[group] for group in CLOSED if isinstance(cfg.get(group), DictConfig)}
    for prefix, node in nodes.items():
        for key in (f"{prefix}{name}" for name in node):
            if key not in known and not any(word == key or word.startswith(f"{key}.") for word in added):
                raise UserError(
                    f"{key}: this version has no such setting; a config file of another version may set it"
                    f"{_close_match(key, known)}"
                )


def _check_types(cfg: DictConfig, command: str) -> None:
    defaults = _defaults(command)
    for key, value in _walk(OmegaConf.to_container(cfg)):
        default = defaults.get(key)
        if isinstance(default, dict) and default and isinstance(value, bool | int | float):
            raise UserError(f"{key}={value}: {key} is a group of settings; give {key}.NAME=VALUE")
        is_text = isinstance(default, str) and not re.fullmatch(r"\$\{[^}]*\}", default)  # `${seed}` may be a number
        if is_text and isinstance(value, bool | int | float):
            kind = "a switch" if isinstance(value, bool) else "a number"
            raise UserError(f"{key}={value} is read as {kind}, not as text; give it in both quotes: \"{key}='TEXT'\"")
        if isinstance(default, bool | int | float) and isinstance(value, str) and "${" not in value:
            kind = "true or false" if isinstance(default, bool) else "a number"
            raise UserError(f"{key}={value} is not {kind}; its default is {default}")


def _compose(command: str, overrides: Sequence[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), job_name="kernelrl", version_base=HYDRA_VERSION_BASE):
        return compose(command, overrides=list(overrides))


@cache
def _defaults(command: str) -> dict[str, object]:
    """Every key of the command's config without overrides, e.g. `sft.trainer.learning_rate`, and its value."""
    return dict(_walk(OmegaConf.to_container(_compose(command, ()))))


def _walk(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every key below a mapping, dotted, with its value."""
    if isinstance(value, dict):
        for key, child in value.items():
            name = f"{prefix}.{key}" if prefix else str(key)
            yield name, child
            yield from _walk(child, name)


def _groups() -> list[str]:
    return sorted(path.name for path in config_dir().iterdir() if path.is_dir())


@cache
def _load(group: str, option: str) -> list[str]:
    """The keys that an option of a config group sets."""
    return [str(key) for key in OmegaConf.load(config_dir() / group / f"{option}.yaml")]


def _options(group: str) -> list[str]:
    names = {path.stem for path in (config_dir() / group).glob("*.yaml")}
    return sorted(names - {COMMON})


def _owners(name: str, command: str) -> list[str]:
    """The options, none of which is chosen, that have a setting of that name (`model.name`: `model=hf`)."""
    group, _, key = name.partition(".")
    key = key.partition(".")[0]
    if group not in _groups() or not key or f"{group}.{key}" in _defaults(command):
        return []
    return [f"{group}={option}" for option in _options(group) if key in _load(group, option)]


def _close_match(name: str, known: Sequence[str]) -> str:
    """`; did you mean …?`, or the short list of what there is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not close:  # a right name at a wrong place, e.g. `learning_rate` for `sft.trainer.learning_rate`
        close = [key for key in known if key.rpartition(".")[2] == name.rpartition(".")[2]]
    if close:
        return f"; did you mean {' or '.join(repr(key) for key in close[:3])}?"
    top = sorted({key for key in known if "." not in key})
    return f"; choose one of {', '.join(top)}" if top else ""
