"""`millrace serve` as a process: started, asked, looked at, ended. Every wait is bounded. Knows no dialect and no test."""
import atexit
import collections
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from support import BIN, ROOT  # noqa: E402, F401: what the tests beside this file share with those
from wire import Wire, as_bytes, request_bytes  # noqa: E402

SANITIZED = bool(os.environ.get("MILLRACE_SANITIZE"))
SLOW = 5 if SANITIZED else 1  # bounds of time are for a release build on two quiet cores; times this
# For preexec: what recurses per bracket ends there. A sanitizer's frames are several times as large.
SMALL_STACK = None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))

RUNNING = "millrace_num_requests_running"
WAITING = "millrace_num_requests_waiting"
LIVE = "millrace_kv_cache_usage_perc"  # of blocks that a request holds; those that only the prefix cache keeps do not count


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
        """Of the threads that there are, to the nanosecond; /proc/PID/stat counts in hundredths of a second."""
        return sum(int(stat.read_text().split()[0]) for stat in pathlib.Path(f"/proc/{self.pid}/task").glob("*/schedstat")) / 1e9

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
