"""What the tests beside this file share: the built binary, reference data next to the project, tiny model files.

Standard library only. ctest sets MILLRACE_BIN; without it build/release/millrace is taken. Reference data lies in ../shared
of the project's root; a test that needs it skips with exit status 77 where it is absent.
"""
import array
import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
BIN = os.environ.get("MILLRACE_BIN", str(ROOT / "build/release/millrace"))
SKIPPED = 77
MODEL_HASH = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def skip_all(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def shared(path):
    """The path below ../shared; skips the whole program where there is none."""
    if not (SHARED / path).exists():
        skip_all(f"{SHARED / path} is not there")
    return SHARED / path


def cases():
    """The module that makes the models of the reported cases."""
    spec = importlib.util.spec_from_file_location("mk", shared("cases/mk.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "millrace/models"


def default_model():
    """The default model's file; skips the whole program where it has not been fetched."""
    path = cache_folder() / MODEL_FILE
    if not path.exists():
        skip_all(f"{path} is not there: millrace fetch smollm2-135m-instruct gets it")
    return path


def millrace(*args, stdin=None, env=None, timeout=240, **more):
    """Runs the binary; bytes in and out are text unless `text=False`."""
    more.setdefault("text", True)
    more.setdefault("stdout", subprocess.PIPE)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_")}
    if stdin is None:
        more.setdefault("stdin", subprocess.DEVNULL)
    else:
        more["input"] = stdin
    return subprocess.run([BIN, *map(str, args)], stderr=subprocess.PIPE, timeout=timeout, env={**clean, **(env or {})}, **more)


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)

    def ok(self, *args, **more):
        """The standard output of a run that has to succeed."""
        done = millrace(*args, **more)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stderr}")
        return done.stdout

    def ok_json(self, *args, **more):
        return json.loads(self.ok(*args, **more))

    def refused(self, *args, status=1, **more):
        """The one sentence on standard error of a run that has to fail with `status`."""
        done = millrace(*args, **more)
        self.assertEqual(done.returncode, status, f"{args}: {done.stderr}")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, f"{args}: {done.stderr}")
        self.assertTrue(lines[0].startswith("millrace: "), lines[0])
        return lines[0][len("millrace: "):]


def floats(path):
    out = array.array("f")
    with open(path, "rb") as file:
        out.frombytes(file.read())
    return out


# GGUF value types by number: struct format of a scalar.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_gguf(path):
    """(metadata, {tensor: (dims innermost first, ggml type, raw bytes from its offset on)})"""
    data = open(path, "rb").read()
    at = 0

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)[0]
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode("utf-8", "surrogateescape")

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = take("I"), take("Q")
            return [value(inner) for _ in range(n)]
        return take(SCALARS[kind])

    assert data[:4] == b"GGUF"
    at = 8
    n_tensors, n_keys = take("Q"), take("Q")
    metadata = {}
    for _ in range(n_keys):
        key = text()
        metadata[key] = value(take("I"))
    heads = []
    for _ in range(n_tensors):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        heads.append((name, dims, take("I"), take("Q")))
    start = (at + 31) // 32 * 32
    return metadata, {name: (dims, kind, data[start + offset:]) for name, dims, kind, offset in heads}


def main():
    unittest.main(verbosity=1, warnings="ignore")  # cases() leaves files to the collector
