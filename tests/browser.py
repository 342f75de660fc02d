"""A headless Chromium that tests talk to through a pipe, by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One tab. `errors` holds what its console has complained of, and every request for something beyond the page."""

    def __init__(self, profile: Path):
        self.errors: list[str] = []
        self._number = 0
        self._waiting = b""
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def connect() -> None:
            os.dup2(to_read, 1003)
            os.dup2(to_write, 1004)
            os.dup2(1003, 3)
            os.dup2(1004, 4)

        options = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe".split()
        self._process = subprocess.Popen(
            [str(CHROMIUM), *options, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=connect,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command's result, once it has come."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def open(self, url: str) -> None:
        """Load a page, until its load event."""
        self.call("Page.navigate", url=url)
        while (message := self._receive()).get("method") != "Page.loadEventFired":
            self._note(message)

    def evaluate(self, script: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(picture))

    def close(self) -> None:
        os.close(self._write)
        os.close(self._read)
        self._process.kill()
        self._process.wait()

    def _note(self, message: dict[str, Any]) -> None:
        method, content = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown" or (method == "Log.entryAdded" and content["entry"]["level"] == "error"):
            self.errors.append(json.dumps(content))
        if method == "Network.requestWillBeSent" and not content["request"]["url"].startswith("file:"):
            self.errors.append(content["request"]["url"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._waiting += piece
        line, _, self._waiting = self._waiting.partition(b"\0")
        return dict(json.loads(line))
