"""Where figures come from: the code that made them."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


def git_version() -> str | None:
    """`git describe` of the checkout that this package runs from; None where it runs from an installed copy."""
    checkout = Path(__file__).parents[3]
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--tags"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):  # no git here, or a checkout that is another user's
        return None


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that sampling depends on."""
    return {"python": platform.python_version()} | {name: version(name) for name in ("torch", "transformers", "trl")}
