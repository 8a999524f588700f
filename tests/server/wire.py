"""HTTP/1.1 and its streams of events as bytes, read strictly: what a client library would forgive fails here. Knows no
server's process and no dialect.
"""
import collections
import json
import re
import socket
import time

Event = collections.namedtuple("Event", "at name data")  # data: parsed, or the word [DONE]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

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
    """One connection as bytes."""

    def __init__(self, where, timeout=60.0, receive_buffer=None):
        self.socket = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(where)
        if not isinstance(where, str):
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
        status, headers, _ = self.head()
        body = b"" if method == "HEAD" or status in (204, 304) else b"".join(self.pieces(headers))
        return Answer(status, headers, body)

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
