"""A server of the default model for the length of a `with`, as real clients meet it. Standard library only."""
import os
import pathlib
import sys
import time

sys.dont_write_bytecode = True
os.environ["NO_PROXY"] = "127.0.0.1"  # whatever this machine asks other hosts through
sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("server", "cli")]
import server_process  # noqa: E402
from support import BIN, ROOT, default_model, skip_all  # noqa: E402, F401: what the tests beside this file share with those

MODEL = "smollm2"  # as it is served


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


class Server(server_process.Server):
    """Ends with 0 by SIGTERM, when it is left."""

    def __init__(self, *options, env=None):
        super().__init__(default_model(), "--served-model-name", MODEL, "--kv-memory", "512MiB", *options, env=env)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status = self.stop(timeout=30)
        if kind is not None:
            print(f"the server's log:\n{self.log()[-4000:]}", file=sys.stderr)
        elif status != 0:
            raise AssertionError(f"the server ended with {status}:\n{self.log()[-4000:]}")

    @property
    def url(self):
        return f"http://{self.where[0]}:{self.port}"
