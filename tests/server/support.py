"""What the tests beside this file share: a running server, its wire, and the assertions that the reported cases name.

Standard library only. ctest sets MILLRACE_BIN; without it build/release/millrace is taken. Every wait is bounded.

    same     streamed and not, a request says the same: texts, finish reasons, usage
    e400     refused with 400 and a JSON error that names what is wrong; no stream was started
    alive    afterwards the server is well, answers, and its gauges are back at 0
"""
import atexit
import collections
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("MILLRACE_BIN", str(ROOT / "build/release/millrace"))
SANITIZED = bool(os.environ.get("MILLRACE_SANITIZE"))
SLOW = 5 if SANITIZED else 1  # bounds of time are for a release build on two quiet cores; times this
SKIPPED = 77

RUNNING = "millrace_num_requests_running"
WAITING = "millrace_num_requests_waiting"
LIVE = "millrace_kv_cache_usage_perc"  # of blocks that a request holds; those that only the prefix cache keeps do not count

Event = collections.namedtuple("Event", "at name data")  # data: parsed, or the word [DONE]
# For preexec: what recurses per bracket ends there. A sanitizer's frames are several times as large.
SMALL_STACK = None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))


class Answer:
    def __init__(self, status, headers, body, interim=(), closed=False):
        self.status, self.headers, self.body, self.interim, self.closed = status, headers, body, list(interim), closed

    @property
    def text(self):
        return self.body.decode("utf-8")

    @property
    def json(self):
        return strict_json(self.text)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def strict_json(text):
    def refuse(word):
        raise ValueError(f"{word} is no JSON")
    return json.loads(text, parse_constant=refuse)


class Wire:
    """One connection as bytes. Reads HTTP/1.1 strictly: what a client library would forgive fails here."""

    def __init__(self, where, timeout=60.0, receive_buffer=None, tls=None):
        self.socket = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(where)
        if not isinstance(where, str):
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.buffer = b""
        self.arrived = 0.0  # when the last bytes came
        self.deadline = float("inf")  # for all that is read; `timeout` is for each wait

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes without a farewell: the other side gets RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())
        return self

    def until(self, seconds):
        self.deadline = time.monotonic() + seconds
        return self

    def more(self):
        if time.monotonic() > self.deadline:
            raise TimeoutError("it goes on and on")
        data = self.socket.recv(1 << 16)
        self.arrived = time.monotonic()
        self.buffer += data
        return bool(data)

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.more():
                raise ConnectionError(f"closed in a line, after {self.buffer[:200]!r}")
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, n):
        while len(self.buffer) < n:
            if not self.more():
                raise ConnectionError(f"closed {n - len(self.buffer)} bytes too early")
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def rest(self):
        while self.more():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def at_end(self):
        """True if the other side has closed and nothing is left."""
        try:
            return not self.buffer and not self.more()
        except ConnectionResetError:
            return True

    def head(self):
        """(status, headers, interim statuses)"""
        interim = []
        while True:
            first = self.line().decode("latin-1")
            if not re.fullmatch(r"HTTP/1\.[01] [1-5]\d\d( .*)?", first):
                raise ValueError(f"no status line: {first!r}")
            status, headers = int(first[9:12]), {}
            while True:
                line = self.line().decode("latin-1")
                if not line:
                    break
                name, colon, value = line.partition(":")
                if not colon or not name or name != name.strip():
                    raise ValueError(f"no header: {line!r}")
                headers[name.lower()] = value.strip()
            if status >= 200:
                return status, headers, interim
            interim.append(status)

    def pieces(self, headers):
        """The body as it comes."""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(self.line(), 16):
                yield self.take(size)
                if self.take(2) != b"\r\n":
                    raise ValueError("a chunk is longer than it says")
            while self.line():
                pass
        elif "content-length" in headers:
            if left := int(headers["content-length"]):
                yield self.take(left)
        else:
            while self.buffer or self.more():
                data, self.buffer = self.buffer, b""
                yield data

    def answer(self, method="POST"):
        status, headers, interim = self.head()
        body = b"" if method == "HEAD" or status in (204, 304) else b"".join(self.pieces(headers))
        return Answer(status, headers, body, interim)

    def events(self, headers):
        """Server-sent events with the time at which their last byte came."""
        text = b""
        for piece in self.pieces(headers):
            at = self.arrived
            text += piece
            while b"\n\n" in text:
                block, text = text.split(b"\n\n", 1)
                name, data = "", []
                for line in block.decode("utf-8").split("\n"):
                    field, _, value = line.partition(":")
                    value = value.removeprefix(" ")
                    if field == "event":
                        name = value
                    elif field == "data":
                        data.append(value)
                    elif field:
                        raise ValueError(f"a line that clients drop: {line!r}")
                if data:
                    whole = "\n".join(data)
                    yield Event(at, name, whole if whole == "[DONE]" else strict_json(whole))
        if text:
            raise ValueError(f"an event without an end: {text[:200]!r}")


def request_bytes(method, path, body=b"", headers=(), version="1.1"):
    """`headers`: pairs; what is not said of host and length is filled in."""
    said = {name.lower() for name, _ in headers}
    lines = [f"{method} {path} HTTP/{version}"] + [f"{n}: {v}" for n, v in headers]
    if "host" not in said:
        lines.append("Host: localhost")
    if (body or method == "POST") and not said & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    if body and "content-type" not in said:
        lines.append("Content-Type: application/json")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def as_bytes(body):
    return body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()


class Server:
    """`millrace serve MODEL`, until stop() or the end of the program."""

    def __init__(self, model, *options, port=0, preexec=None, wait=True, env=None):
        self.lines = collections.deque(maxlen=2000)  # of standard error
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_")}
        self.command = [BIN, "serve", str(model), "--port", str(port), *map(str, options)]
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        preexec_fn=preexec, env={**clean, **(env or {})})
        atexit.register(self.kill)
        self.pid = self.process.pid
        self.where = None
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listening.wait(20 * SLOW) or self.where is None:
            self.kill()
            raise AssertionError(f"{self.command} does not listen: {list(self.lines)}")
        self.port = self.where[1]
        if wait:
            self.wait_until_ready()

    def _read(self):
        for raw in self.process.stderr:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            self.lines.append(line)
            if self.where is None and (found := re.search(r'listening(?: on |","on":")(?:https?://)?([\d.]+):(\d+)', line)):
                self.where = (found[1], int(found[2]))
                self._listening.set()
        self._listening.set()  # the end, too, is an answer

    def log(self):
        return "\n".join(self.lines)

    def wait_until_ready(self, timeout=60):
        end = time.monotonic() + timeout * SLOW
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.command} ended with {self.process.returncode}: {self.log()}")
            try:
                if self.get("/health", timeout=2).status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.01)
        raise AssertionError(f"{self.command} is not ready after {timeout} s: {self.log()}")

    # asking

    def wire(self, **more):
        return Wire(self.where, **more)

    def ask(self, method, path, body=b"", headers=(), timeout=60, version="1.1"):
        with self.wire(timeout=timeout) as wire:
            wire.until(timeout).send(request_bytes(method, path, body, [*headers, ("Connection", "close")], version))
            return wire.answer(method)

    def get(self, path, headers=(), timeout=60):
        return self.ask("GET", path, headers=headers, timeout=timeout)

    def post(self, path, body, headers=(), timeout=60):
        return self.ask("POST", path, as_bytes(body), headers, timeout)

    def stream(self, path, body, headers=(), timeout=60):
        """The events of a stream that has to start; read to the end."""
        with self.wire(timeout=timeout) as wire:
            wire.until(timeout).send(request_bytes("POST", path, as_bytes(body), headers))
            status, head, _ = wire.head()
            if status != 200 or not head.get("content-type", "").startswith("text/event-stream"):
                raise AssertionError(f"no stream but {status}: {b''.join(wire.pieces(head))[:300]!r}")
            return list(wire.events(head))

    def start_stream(self, path, body, **more):
        """A wire that has the stream's head behind it, and its events."""
        wire = self.wire(**more)
        wire.send(request_bytes("POST", path, as_bytes(body)))
        status, head, _ = wire.head()
        if status != 200:
            raise AssertionError(f"no stream but {status}: {b''.join(wire.pieces(head))[:300]!r}")
        return wire, wire.events(head)

    # looking

    def metrics(self):
        """{name with labels: value}"""
        page = self.get("/metrics").text
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line and line[0] != "#"}

    def metric(self, name):
        """The sum over all labels of one family."""
        found = [v for k, v in self.metrics().items() if k == name or k.startswith(name + "{")]
        if not found:
            raise AssertionError(f"no metric {name}")
        return sum(found)

    def gauges(self):
        values = self.metrics()
        return tuple(sum(v for k, v in values.items() if k.split("{")[0] == name) for name in (RUNNING, WAITING, LIVE))

    def settle(self, timeout=5.0):
        """Waits until the gauges are 0; the seconds that took, or None."""
        start = time.monotonic()
        while time.monotonic() < start + timeout * SLOW:
            if self.gauges() == (0, 0, 0):
                return time.monotonic() - start
            time.sleep(0.02)
        return None

    def status_of_process(self, key):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
        raise AssertionError(f"no {key}")

    def rss(self):
        return self.status_of_process("VmRSS") << 10

    def threads(self):
        return self.status_of_process("Threads")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        words = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    # ending

    def send_signal(self, which):
        os.kill(self.pid, which)

    def wait(self, timeout=20):
        return self.process.wait(timeout * SLOW)

    def stop(self, which=signal.SIGTERM, timeout=20):
        """The exit status."""
        if self.process.poll() is None:
            self.send_signal(which)
        try:
            return self.wait(timeout)
        finally:
            self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


# What an answer says, whatever its dialect and whether it streams: {index: (text, finish reason)}, usage.
Said = collections.namedtuple("Said", "choices usage")


def usage_of(usage):
    """Numbers only, so that details that are null or missing compare equal; what was cached differs from call to call."""
    flat = {}
    for key, value in (usage or {}).items():
        if isinstance(value, dict):
            flat.update({f"{key}.{k}": v for k, v in value.items() if v})
        elif value is not None:
            flat[key] = value
    if "cache_read_input_tokens" in flat:  # Anthropic's input_tokens are those that were not cached
        flat["input_tokens"] += flat["cache_read_input_tokens"]
    return {k: v for k, v in flat.items() if "cache" not in k}


def said_of_answer(path, body):
    if path == "/v1/completions":
        return Said({c["index"]: (c["text"], c["finish_reason"]) for c in body["choices"]}, usage_of(body["usage"]))
    if path == "/v1/chat/completions":
        return Said({c["index"]: (c["message"]["content"] or "", c["finish_reason"]) for c in body["choices"]}, usage_of(body["usage"]))
    if path == "/v1/messages":
        text = "".join(part["text"] for part in body["content"])
        usage = usage_of(body["usage"])
        return Said({0: (text, body["stop_reason"])}, usage)
    text = "".join(part["text"] for item in body["output"] for part in item["content"])
    return Said({0: (text, body["status"])}, usage_of(body["usage"]))


def said_of_events(path, events):
    texts, ends, usage = collections.defaultdict(str), {}, {}
    for event in events:
        data = event.data
        if data == "[DONE]":
            continue
        if "error" in data and data["error"] or event.name == "error":
            raise AssertionError(f"an error in the stream: {data}")
        if path in ("/v1/completions", "/v1/chat/completions"):
            for choice in data["choices"]:
                i = choice["index"]
                texts[i] += choice["text"] if path == "/v1/completions" else choice["delta"].get("content") or ""
                if choice.get("finish_reason"):
                    if i in ends:
                        raise AssertionError(f"choice {i} ends twice")
                    ends[i] = choice["finish_reason"]
            usage.update(data.get("usage") or {})
        elif path == "/v1/messages":
            if data["type"] == "message_start":
                usage.update(data["message"]["usage"])
            elif data["type"] == "content_block_delta":
                texts[0] += data["delta"]["text"]
            elif data["type"] == "message_delta":
                ends[0] = data["delta"]["stop_reason"]
                usage.update(data["usage"])
        elif data["type"] == "response.output_text.delta":
            texts[0] += data["delta"]
        elif data["type"] in ("response.completed", "response.incomplete"):
            ends[0] = data["response"]["status"]
            usage.update(data["response"]["usage"])
    return Said({i: (texts[i], end) for i, end in ends.items()}, usage_of(usage))


def streamed(path, body):
    """The same request, streamed, with its usage."""
    more = {"stream": True}
    if path in ("/v1/completions", "/v1/chat/completions"):
        more["stream_options"] = {"include_usage": True}
    return {**body, **more}


COMPLETIONS, CHAT, MESSAGES, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses"


def user(text):
    return [{"role": "user", "content": text}]


class Case(unittest.TestCase):
    maxDiff = None
    folder = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)

    @classmethod
    def serve(cls, model, *options, **more):
        """A server for the whole class."""
        server = Server(model, *options, **more)
        cls.addClassCleanup(server.kill)
        return server

    def serve_here(self, model, *options, **more):
        """A server for one test."""
        server = Server(model, *options, **more)
        self.addCleanup(server.kill)
        return server

    def ok(self, server, path, body, headers=(), timeout=60):
        answer = server.post(path, body, headers, timeout)
        self.assertEqual(answer.status, 200, f"{path} {str(body)[:300]}: {answer}")
        self.assertTrue(answer.headers["content-type"].startswith("application/json"), answer.headers)
        return answer.json

    def same(self, server, path, body):
        """SAME; returns (the whole answer, the events of the stream)."""
        whole = self.ok(server, path, body)
        events = server.stream(path, streamed(path, body))
        self.assertEqual(said_of_events(path, events), said_of_answer(path, whole), (path, body))
        return whole, events

    def text(self, server, path, body):
        """(text, finish reason, completion tokens) of the first choice, streamed or not."""
        whole, _ = self.same(server, path, body)
        said = said_of_answer(path, whole)
        return (*said.choices[0], said.usage.get("completion_tokens", said.usage.get("output_tokens")))

    def e400(self, server, path, body, names=None, status=400, within=None, headers=()):
        """E400; `names`: a word that the message has to hold, or several of which one is enough."""
        start = time.monotonic()
        answer = server.post(path, body, headers)
        took = time.monotonic() - start
        what = f"{path} {str(body)[:200]}: {answer}"
        self.assertIn(answer.status, status if isinstance(status, tuple) else (status,), what)
        self.assertTrue(answer.headers.get("content-type", "").startswith("application/json"), what)
        error = answer.json["error"]
        self.assertTrue(isinstance(error["message"], str) and error["message"], what)
        self.assertIsInstance(error["type"], str, what)
        if names:
            words = (names,) if isinstance(names, str) else names
            self.assertTrue(any(word in error["message"] for word in words), f"{words} not in {what}")
        if within:
            self.assertLess(took, within * SLOW, what)
        return error

    def alive(self, server, timeout=5.0):
        self.assertIsNone(server.process.poll(), server.log())
        self.assertEqual(server.get("/health").status, 200)
        self.ok(server, COMPLETIONS, {"prompt": "A", "max_tokens": 1})
        self.assertIsNotNone(server.settle(timeout), f"running, waiting, KV in use: {server.gauges()}")


def main():
    unittest.main(verbosity=1)
