"""A run goes to the hub: what is put together, and what a server of the hub's protocol gets."""

import base64
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from kernelrl.commands.push import main
from kernelrl.errors import UserError

pytestmark = pytest.mark.slow

RESULTS = {
    "policies": {
        "base": {"figures": {"correct": {"value": 0.125, "low": 0.1, "high": 0.15}}},
        "sft": {"figures": {"correct": {"value": 0.5, "low": 0.45, "high": 0.55}, "speedup": {"value": None}}},
    },
    "eval": {"samples": 4, "temperature": 0.8},
    "dialect": "cpp",
    "machine": "a cpu",
}


class Hub(ThreadingHTTPServer):
    """The part of the hub's protocol that an upload of small files speaks."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.created, self.files, self.url = [], {}, f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({"siblings": [], "sha": "0", "id": "x"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        if self.path.endswith("/repos/create"):
            if self.headers.get("authorization") is None:
                return self.reply({"error": "no token"}, 401)
            self.server.created.append(json.loads(body))
            return self.reply({"url": f"{self.server.url}/me/kernels", "id": "me/kernels"})
        if "/preupload/" in self.path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self.reply({"files": files})
        if "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.server.files[self.path.split("/")[2], line["value"]["path"]] = base64.b64decode(
                        line["value"]["content"]
                    )
        return self.reply({"success": True, "commitUrl": f"{self.server.url}/me/kernels/commit/1", "commitOid": "1"})

    def reply(self, value, status=200):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture
def run(toy, tmp_path):
    """A run with an SFT policy, a data set and an evaluation."""
    for name in ("sft", "data"):
        (tmp_path / name).symlink_to(toy / name)
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    return tmp_path


def test_a_dry_run_puts_together_what_would_be_uploaded(run, capsys):
    assert main([str(run), "me/kernels", "--data", "me/kernels-data", "--dry-run"]) == 0
    model = run / "push" / "model"
    names = {path.name for path in model.iterdir()}
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= names
    card = (model / "README.md").read_text()
    assert card.startswith("---\n") and "- me/kernels-data" in card and "library_name: transformers" in card
    assert "| correct | 0.125 [0.1, 0.15] | 0.5 [0.45, 0.55] |" in card and "| speedup |" not in card
    assert "| `learning_rate` | `0.003` |" in card
    assert (run / "push" / "data" / "sft_train.parquet").exists() and (run / "push" / "data" / "README.md").exists()
    assert "dataset me/kernels-data: " in capsys.readouterr().out


def test_the_card_has_the_figures_as_the_hub_reads_them(run):
    assert main([str(run), "me/kernels", "--dry-run"]) == 0
    card = ModelCard.load(run / "push" / "model" / "README.md")
    (found,) = card.data.eval_results
    assert (card.data.model_name, found.metric_type, found.metric_value) == ("kernels", "correct", 0.5)
    assert found.metric_args == {"low": 0.45, "high": 0.55, "samples": 4, "temperature": 0.8}
    assert found.dataset_name == "held-out tasks, dialect=cpp" and "model-index" in card.content
    (run / "results.json").write_text(json.dumps(RESULTS | {"partial": {"num": 2, "of": 9}}))
    assert main([str(run), "me/kernels", "--dry-run"]) == 0
    card = ModelCard.load(run / "push" / "model" / "README.md")
    assert card.data.eval_results is None, "a part of the tasks says nothing about the others"
    assert "Partial: the first 2 of 9 tasks." in card.content


def test_the_hub_gets_model_card_and_data(run, monkeypatch):
    hub = Hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_tests")
    assert main([str(run), "me/kernels", "--data", "me/kernels-data", "--private"]) == 0
    assert [(each["name"], each["organization"], each.get("type", "model")) for each in hub.created] == [
        ("kernels", "me", "model"),
        ("kernels-data", "me", "dataset"),
    ]
    assert hub.files["models", "model.safetensors"] == (run / "sft" / "final" / "model.safetensors").read_bytes()
    assert b"## Evaluation" in hub.files["models", "README.md"]
    assert {"sft_train.parquet", "README.md"} <= {Path(name).name for kind, name in hub.files if kind == "datasets"}
    hub.shutdown()
    hub.server_close()


def test_a_data_set_goes_alone_with_licences_and_origins(toy, tmp_path, capsys):
    data = shutil.copytree(toy / "data", tmp_path / "data")
    assert main([str(data), "me/kernels-data", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "sft, train: " in said and "rows can be streamed" in said and "dataset me/kernels-data: " in said
    card = (tmp_path / "data-push" / "README.md").read_text()
    assert "| unknown | tasks_train |" in card and "| synthetic | made here |" in card
    (data / "sft_train.parquet").write_bytes(b"else")
    with pytest.raises(UserError, match=r"data: sft_train.parquet is not what manifest.json says it is"):
        main([str(data), "me/kernels-data", "--dry-run"])


def test_what_cannot_be_pushed_is_one_line(run, monkeypatch):
    with pytest.raises(UserError, match=r"grpo has not finished there; run `kernelrl grpo` first"):
        main([str(run), "me/kernels", "--stage", "grpo"])
    for repository in ("me/my kernels", "a/b/c", "me/--"):
        with pytest.raises(UserError, match="no name of a repository"):
            main([str(run), repository])
    monkeypatch.setattr("kernelrl.commands.push.get_token", lambda: None)
    with pytest.raises(UserError, match=r"the hub wants to know who uploads: `hf auth login`, or set HF_TOKEN"):
        main([str(run), "me/kernels"])
