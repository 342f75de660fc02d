"""A real server of chat completions that follows a script, for whatever asks a language model."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def says(message):
    """What a question says."""
    return message["messages"][-1]["content"]


def answer(content, **message):
    usage = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content, **message}}
    completion = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return 200, json.dumps({**completion, "usage": usage})


class Server(ThreadingHTTPServer):
    """A chat-completion server that follows a script: (status, body) per request, the last one for ever.

    Asked for its models it names the owner, where there is one: `vllm` as vLLM does. `pages` are what else it says, by
    path, as (status, body).
    """

    daemon_threads = True

    def __init__(self, *script, delay=0.0, handler=None, owner=None, pages=()):
        super().__init__(("127.0.0.1", 0), handler or Handler)
        self.owner, self.pages = owner, dict(pages)
        self.script, self.delay, self.lock = list(script), delay, threading.Lock()
        self.requests, self.times, self.active, self.most = [], [], 0, 0
        self.files, self.batches, self.looks = {}, {}, []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        with server.lock:
            status, text = self.follow(body)
            server.active += 1
            server.most = max(server.most, server.active)
        time.sleep(server.delay)
        with server.lock:
            server.active -= 1
        self.reply(status, text)

    def do_GET(self):
        if self.path in self.server.pages:
            return self.reply(*self.server.pages[self.path])
        if self.path != "/v1/models" or self.server.owner is None:
            return self.reply(404, "{}")
        self.reply(200, json.dumps({"object": "list", "data": [{"id": "m", "owned_by": self.server.owner}]}))

    def follow(self, body):
        """The script's next answer to a question; a function in it makes one."""
        server = self.server
        server.requests.append((self.path, self.headers.get("authorization"), body))
        server.times.append(time.monotonic())
        following = server.script.pop(0) if len(server.script) > 1 else server.script[0]
        return following(body) if callable(following) else following

    def reply(self, status, text):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


class BatchHandler(Handler):
    """The protocol of `/v1/batches`: a file goes up, a batch of it is looked at until it is done, a file comes down.

    `server.looks` holds the statuses that are seen in turn before `completed`.
    """

    def do_POST(self):
        server, data = self.server, self.rfile.read(int(self.headers["content-length"]))
        with server.lock:
            if self.path == "/v1/files":
                lines = [line for line in data.decode().splitlines() if line.startswith("{")]
                server.files[f"file-{len(server.files)}"] = lines
                body = {"id": f"file-{len(server.files) - 1}", "object": "file", "purpose": "batch"}
            elif self.path == "/v1/batches":
                asked = json.loads(data)
                server.batches[f"batch-{len(server.batches)}"] = asked
                body = self.batch(f"batch-{len(server.batches) - 1}", "validating")
            else:
                return self.reply(404, "{}")
        self.reply(200, json.dumps(body))

    def do_GET(self):
        server, parts = self.server, self.path.split("/")
        with server.lock:
            if parts[2] == "batches":
                status = server.looks.pop(0) if server.looks else "completed"
                return self.reply(200, json.dumps(self.batch(parts[3], status)))
            asked = map(json.loads, server.files[parts[3].removeprefix("answers-")])
            found = [(line["custom_id"], *self.follow(line["body"])) for line in asked]
        lines = [
            {"custom_id": id, "response": {"status_code": status, "body": json.loads(text)}}
            for id, status, text in found
        ]
        self.reply(200, "\n".join(map(json.dumps, reversed(lines))))

    def batch(self, id, status):
        file = self.server.batches[id]["input_file_id"]
        done = status == "completed"
        return {
            **{"id": id, "object": "batch", "status": status, "input_file_id": file, "created_at": 0},
            **{"endpoint": "/v1/chat/completions", "completion_window": "24h"},
            "output_file_id": f"answers-{file}" if done else None,
            "error_file_id": None,
        }
