"""A `millrace serve` of the default model on a free port of loopback, for the length of a test. Standard library only."""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
os.environ["NO_PROXY"] = "127.0.0.1"  # whatever this machine asks other hosts through
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from support import BIN, ROOT, default_model, skip_all  # noqa: E402, F401: what the tests beside this file share with those

MODEL = "smollm2"  # as it is served
START_S = 60


def wait_for(what, fact, timeout=10.0, every=0.02):
    """The first true value of fact(), or an AssertionError that names `what` and the last value."""
    until = time.monotonic() + timeout
    while True:
        value = fact()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not within {timeout} s, last {value!r}")
        time.sleep(every)


class Server:
    """Started on entering, stopped by SIGTERM on leaving: it has to end with 0."""

    def __init__(self, *options, model=None, variables=None):
        self.command = [BIN, "serve", str(model or default_model()), "--port", "0", "--served-model-name", MODEL, "--kv-memory", "512MiB", *map(str, options)]
        self.variables = variables or {}

    def __enter__(self):
        self._log = tempfile.TemporaryFile("w+")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_")}
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env={**clean, **self.variables})
        try:
            self.host, port = wait_for("an address", self._address, START_S)
            self.port = int(port)
            wait_for("/health", lambda: self.ask("GET", "/health")[0] == 200, START_S)
        except BaseException:
            self.process.kill()
            self.process.wait()
            print(self.log(), file=sys.stderr)
            self._log.close()
            raise
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = f"none 30 s after SIGTERM, killed: {self.process.wait()}"
        log = self.log()
        self._log.close()
        if kind is not None:
            print(f"the server's log:\n{log[-4000:]}", file=sys.stderr)
        elif status != 0:
            raise AssertionError(f"the server ended with {status}:\n{log[-4000:]}")

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def _address(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}")
        return next(iter(re.findall(r"^listening on http://([0-9.]+):([0-9]+)", self.log(), re.M)), None)

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def ask(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers in lower case, text)"""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers={"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
        finally:
            connection.close()

    def metric(self, name, prefix="millrace_"):
        """The sum over the labels of a metric."""
        page = self.ask("GET", "/metrics")[2]
        values = re.findall(rf"^{prefix}{name}(?:{{[^}}]*}})? (\S+)", page, re.M)
        assert values, f"no metric {prefix}{name}"
        return sum(map(float, values))

    def idle(self, timeout):
        """Waits until nothing runs or waits."""
        wait_for("running and waiting 0", lambda: self.metric("num_requests_running") + self.metric("num_requests_waiting") == 0, timeout)
