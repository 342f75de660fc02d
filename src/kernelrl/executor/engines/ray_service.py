"""A shared executor: a named actor on the cluster that owns the nodes' actors and serves several runs.

It outlives the run that started it. A run that uses it is a client: it shows the token, hands in requests and fetches
verdicts; one that does not fetch for a while has died, and its requests are forgotten.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import html
import itertools
import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from kernelrl.errors import InfrastructureError, KernelRLError, UserError
from kernelrl.executor.api import ClusterSettings, ExecutorSettings, NodeHealth, Request, deciding_settings, not_known
from kernelrl.executor.engines.dispatch import Job
from kernelrl.executor.engines.ray_node import identity
from kernelrl.executor.engines.ray_pool import LOOK_S, Pool
from kernelrl.verdict import Verdict

NAMESPACE = "kernelrl"
"""Ray's namespace in which shared executors have their names."""
TOKEN_VARIABLE = "KERNELRL_EXECUTOR_TOKEN"
POLL_S = 5.0
"""A client's request for verdicts is answered after so long at the latest (in seconds)."""
MAX_CLIENTS = 64


@dataclass(eq=False)
class _Client:
    heard: float
    numbers: dict[int, int] = field(default_factory=dict)
    """By the pool's number of a request: the client's number, of what has no verdict yet."""
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    """By the client's number, of what it has not confirmed."""


class SharedExecutor:
    """The actor.

    Args:
        name: of the shared executor.
        settings: of the engine, as JSON.
        secret: from which the seeds of hidden inputs are derived.
        token_digest: `digest` of the token that clients show.
        quota: requests of one client that may be with the nodes at a time; None: any number.
        lease_s: a client that has not been heard of for so long is gone (in seconds).
        port: of the page that says how it is doing; 0: any free one; None: no page.
    """

    def __init__(
        self,
        name: str,
        settings: dict[str, Any],
        secret: str,
        token_digest: str,
        quota: int | None,
        lease_s: float,
        port: int | None,
    ):
        self._name = name
        self._settings = ExecutorSettings.model_validate(settings)
        self._token_digest = token_digest
        self._lease_s = lease_s
        self._clients: dict[str, _Client] = {}
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._pool = Pool(self._settings, secret, self._on_verdict, quota)
        self._page = None if port is None else _serve_page(self, port)
        threading.Thread(target=self._forget_the_dead, daemon=True, name="leases").start()

    def wait_ready(self, token: str) -> str | None:
        """Wait for the nodes; the address of the page.

        Raises:
            UserError: wrong token, too few nodes, another version.
        """
        self._check(token)
        self._pool.wait_ready()
        return self._page

    def hello(self, token: str, client_has: dict[str, str], deciding: dict[str, Any]) -> None:
        """Check that a client can be served.

        Raises:
            UserError: wrong token, another version, settings that would lead to other verdicts.
        """
        self._check(token)
        here = identity()
        for what in here:
            if client_has.get(what) != here[what]:
                raise UserError(
                    f"shared executor {self._name!r} has another version of kernelrl ({what} {here[what]} there, "
                    f"{client_has.get(what)} here); install the same one, or stop it and serve it again"
                )
        own = deciding_settings(self._settings.model_dump(mode="json"))
        if differing := [key for key in own if own[key] != deciding.get(key)]:
            shown = "; ".join(f"executor.{key} is {own[key]} there, {deciding.get(key)} here" for key in differing[:5])
            raise UserError(
                f"shared executor {self._name!r} judges otherwise ({shown}); give both the same settings, or serve "
                "another one under another name"
            )

    def submit(self, token: str, client: str, requests: dict[int, Request]) -> None:
        """Take requests, except those that are known already."""
        self._check(token)
        with self._changed:
            entry = self._clients.get(client)
            if entry is None:
                if len(self._clients) >= MAX_CLIENTS:
                    raise UserError(f"shared executor {self._name!r} has {MAX_CLIENTS} clients already")
                entry = self._clients[client] = _Client(time.monotonic())
            known = {*entry.numbers.values(), *entry.verdicts}
            new = {next(self._numbers): number for number in requests if number not in known}
            entry.numbers |= new
            jobs = [Job(number, client, requests[client_number]) for number, client_number in new.items()]
        self._pool.submit(jobs)

    def collect(self, token: str, client: str, confirmed: Sequence[int]) -> dict[int, Verdict] | None:
        """The verdicts that a client has not confirmed yet, as soon as there are some or `POLL_S` has passed.

        Returns:
            By the client's number. None: this client is not known (any more) and has to submit anew.
        """
        self._check(token)
        with self._changed:
            entry = self._clients.get(client)
            if entry is None:
                return None
            entry.heard = time.monotonic()
            for number in confirmed:
                entry.verdicts.pop(number, None)
            self._changed.wait_for(lambda: entry.verdicts, timeout=POLL_S)
            entry.heard = time.monotonic()
            return dict(entry.verdicts)

    def cancel(self, token: str, client: str, numbers: Iterable[int]) -> None:
        """Forget some of a client's requests."""
        self._check(token)
        with self._changed:
            entry = self._clients.get(client)
            if entry is None:
                return
            chosen = set(numbers)
            cancelled = [number for number, client_number in entry.numbers.items() if client_number in chosen]
            for number in cancelled:
                del entry.numbers[number]
        self._pool.cancel(client, cancelled)

    def leave(self, token: str, client: str) -> None:
        """A client is done."""
        self._check(token)
        self._forget(client)

    def health(self, token: str) -> list[NodeHealth]:
        """One entry for each node."""
        self._check(token)
        return self._pool.health()

    def stop(self, token: str) -> None:
        """End the nodes' actors."""
        self._check(token)
        self._pool.close()

    def summary(self) -> dict[str, Any]:
        """What the page shows."""
        with self._changed:
            clients = {name: len(entry.numbers) for name, entry in self._clients.items()}
        nodes = [node.model_dump() for node in self._pool.health()]
        return {"name": self._name, "queued": self._pool.num_queued, "clients": clients, "nodes": nodes}

    def _check(self, token: str) -> None:
        if not hmac.compare_digest(digest(token), self._token_digest):
            raise UserError(
                f"shared executor {self._name!r}: the token is not the right one; set {TOKEN_VARIABLE}, or "
                "executor.cluster.token_file, to the one that it was started with"
            )

    def _on_verdict(self, job: Job, verdict: Verdict) -> None:
        with self._changed:
            entry = self._clients.get(job.client)
            number = entry.numbers.pop(job.number, None) if entry else None
            if entry is not None and number is not None:
                entry.verdicts[number] = verdict
                self._changed.notify_all()

    def _forget_the_dead(self) -> None:
        while True:
            time.sleep(LOOK_S)
            now = time.monotonic()
            for client in [name for name, entry in list(self._clients.items()) if now - entry.heard > self._lease_s]:
                self._forget(client)

    def _forget(self, client: str) -> None:
        with self._changed:
            self._clients.pop(client, None)
        self._pool.cancel(client)


class Client:
    """A run's end of a shared executor. Thread-safe.

    Args:
        service: the actor's handle.
        name: of the shared executor, under which it is looked for when it is lost; None: it is this run's own.
        token: that it asks for.
        settings: of the engine.
        answer: called with each request's number and verdict, from a thread of the client's.

    Raises:
        UserError: it does not serve this client.
    """

    def __init__(self, service: Any, name: str | None, token: str, settings: ExecutorSettings, answer: Any):
        self._service = service
        self._name = name
        self._token = token
        self._settings = settings
        self._cluster = settings.cluster or ClusterSettings()
        self._answer = answer
        self._client = f"{os.uname().nodename}:{os.getpid()}:{secrets.token_hex(3)}"
        self._open: dict[int, Request] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        try:
            self._hello()
        except RayError as error:
            raise InfrastructureError(f"shared executor {name!r} does not answer: {type(error).__name__}") from None
        self._thread = threading.Thread(target=self._run, daemon=True, name="shared-executor")
        self._thread.start()

    def submit(self, requests: dict[int, Request]) -> None:
        """Have requests judged."""
        with self._lock:
            self._open |= requests
        try:
            self._ask("submit", self._client, requests)
        except RayError:
            return  # the thread sees it too, finds the service again and hands in what is open

    def cancel(self, numbers: Sequence[int]) -> None:
        """Forget requests; no answer comes for them."""
        with self._lock:
            for number in numbers:
                self._open.pop(number, None)
        self._service.cancel.remote(self._token, self._client, list(numbers))

    def health(self) -> list[NodeHealth]:
        """One entry for each node.

        Raises:
            InfrastructureError: the shared executor does not answer.
        """
        try:
            nodes: list[NodeHealth] = self._ask("health")
        except RayError as error:
            raise InfrastructureError(f"the shared executor does not answer: {type(error).__name__}") from None
        return nodes

    def close(self) -> None:
        """Leave. An executor of this run's own ends, a shared one goes on."""
        self._closed.set()
        self._thread.join()
        with contextlib.suppress(RayError, KernelRLError):
            if self._name is None:
                self._ask("stop")
                ray.kill(self._service)
            else:
                self._ask("leave", self._client)

    def _run(self) -> None:
        received: dict[int, Verdict] = {}
        while not self._closed.is_set():
            try:
                found = self._ask("collect", self._client, list(received))
                if found is None:
                    found = {}
                    with self._lock:
                        unanswered = dict(self._open)
                    self._ask("submit", self._client, unanswered)
            except (RayError, KernelRLError):
                found = {}
                self._find_again()
            received = found
            for number, verdict in received.items():
                with self._lock:
                    is_open = self._open.pop(number, None) is not None
                if is_open:
                    self._answer(number, verdict)

    def _find_again(self) -> None:
        """The service is gone: wait for one of its name, or say that nothing was learnt about what is open."""
        deadline = time.monotonic() + self._cluster.wait_s
        why = "the shared executor is gone"
        while self._name is not None and not self._closed.wait(LOOK_S):
            try:
                self._service = ray.get_actor(self._name, namespace=NAMESPACE)
                self._hello()
                return  # it does not know this client: `collect` says so, and what is open is handed in
            except (RayError, ValueError):
                pass
            except KernelRLError as error:
                why = str(error)
                break
            if time.monotonic() > deadline:
                why = f"the shared executor {self._name!r} was gone for {self._cluster.wait_s:g} s"
                break
        with self._lock:
            lost, self._open = self._open, {}
        for number, request in lost.items():
            self._answer(number, not_known(request, self._settings.device, "executor", why))
        self._closed.wait(LOOK_S)

    def _hello(self) -> None:
        deciding = deciding_settings(self._settings.model_dump(mode="json"))
        self._ask("hello", identity(), deciding)

    def _ask(self, method: str, *arguments: object) -> Any:
        """Call the service.

        Raises:
            KernelRLError: what it raised.
            RayError: it does not answer.
        """
        return ask(self._service, method, self._token, *arguments, timeout=self._cluster.silent_s + POLL_S)


def ask(service: Any, method: str, *arguments: object, timeout: float) -> Any:
    """Call a method of the service.

    Raises:
        KernelRLError: what it raised.
        RayError: it does not answer.
    """
    try:
        return ray.get(getattr(service, method).remote(*arguments), timeout=timeout)
    except RayTaskError as error:
        if isinstance(error.cause, KernelRLError):
            raise error.cause from None
        raise


def start_service(
    name: str | None,
    settings: ExecutorSettings,
    secret: str,
    token: str,
    quota: int | None = None,
    lease_s: float = 60.0,
    port: int | None = None,
) -> Any:
    """Start the actor: detached where it has a name, otherwise it ends with this process.

    Raises:
        UserError: the name is taken.
    """
    # it needs no CPU of its own, and Ray starts it again elsewhere when its node is lost
    options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": 2 * MAX_CLIENTS + 8}
    if name is not None:
        options |= {"name": name, "namespace": NAMESPACE, "lifetime": "detached", "max_restarts": -1}
    arguments = (name or "own", settings.model_dump(mode="json"), secret, digest(token), quota, lease_s, port)
    try:
        return ray.remote(SharedExecutor).options(**options).remote(*arguments)
    except ValueError:
        raise UserError(
            f"a shared executor {name!r} runs on this cluster already; `kernelrl executor stop {name}` ends it"
        ) from None


def find_service(name: str) -> Any:
    """The actor of that name.

    Raises:
        UserError: there is none.
    """
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        raise UserError(
            f"executor.cluster.service={name}: no shared executor of that name on this cluster; "
            f"start one with `kernelrl executor serve {name}`"
        ) from None


def read_token(cluster: ClusterSettings) -> str:
    """The token of the shared executor.

    Raises:
        UserError: there is none, or its file cannot be read.
    """
    if cluster.token_file is None:
        if token := os.environ.get(TOKEN_VARIABLE):
            return token
        raise UserError(f"no token for the shared executor: set {TOKEN_VARIABLE}, or executor.cluster.token_file=FILE")
    try:
        token = Path(cluster.token_file).expanduser().read_text().strip()
    except OSError as error:
        raise UserError(f"executor.cluster.token_file={cluster.token_file}: {error.strerror}") from None
    if not token:
        raise UserError(f"executor.cluster.token_file={cluster.token_file}: empty")
    return token


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _serve_page(service: SharedExecutor, port: int) -> str:
    """Serve `/` and `/health.json`; returns the page's address."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            summary = service.summary()
            if self.path == "/health.json":
                kind, text = "application/json", json.dumps(summary)
            else:
                kind, text = "text/html", _page(summary)
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    host = ray.util.get_node_ip_address()
    server = ThreadingHTTPServer((host, port), Page)
    threading.Thread(target=server.serve_forever, daemon=True, name="page").start()
    return f"http://{host}:{server.server_port}/"


def _page(summary: dict[str, Any]) -> str:
    def table(rows: list[dict[str, Any]]) -> str:
        if not rows:
            return "<p>none</p>"
        head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
        cells = ["".join(f"<td>{html.escape(str(value))}</td>" for value in row.values()) for row in rows]
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<table border=1><tr>{head}</tr>{body}</table>"

    clients = [{"client": name, "open requests": number} for name, number in summary["clients"].items()]
    return (
        f"<!doctype html><meta http-equiv=refresh content=5><title>{html.escape(summary['name'])}</title>"
        f"<h1>kernelrl executor {html.escape(summary['name'])}</h1><p>{summary['queued']} requests wait for a node.</p>"
        f"<h2>Nodes</h2>{table(summary['nodes'])}<h2>Clients</h2>{table(clients)}"
    )
