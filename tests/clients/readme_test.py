"""The section "Serve" of README.md, run as it stands there: its shell blocks in order, in one shell, and its Python between
them. Changed are the ports, because others may use them, and where the program lies."""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

from environment import enter_python_environment
from served import BIN, ROOT, default_model, skip_all

if not shutil.which("curl"):
    skip_all("curl is not there")
default_model()
enter_python_environment()

SECTION = (ROOT / "README.md").read_text().split("\n## Serve\n")[1].split("\n## ")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", SECTION, re.M | re.S)
MARK = "=== end of block ==="


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        first, second = free_ports(2)
        script = ["set -eu -o pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", f"export MILLRACE_PORT={first}"]
        for i, (language, text) in enumerate(BLOCKS):
            text = text.replace("8080", str(first)).replace("8081", str(second)).replace("build/release/millrace", BIN)
            if language == "python":
                (folder / f"block{i}.py").write_text(text)
                text = f"{sys.executable} block{i}.py\n"
            # A background job keeps its streams: they must not be those that this test reads to their end.
            script.append(re.sub(r" &$", " >>server.log 2>&1 &", text, flags=re.M) + f"echo; echo '{MARK}'")
        done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=300)
        log = folder / "server.log"
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}\n{log.read_text() if log.exists() else ''}"
        cls.log = log.read_text()
        cls.said = done.stdout.split(MARK + "\n")[:-1]

    def block(self, what):
        """What the block with that text in it printed."""
        [found] = [said for (_, text), said in zip(BLOCKS, self.said) if what in text]
        return found.strip()

    def test_every_block_was_run(self):
        self.assertEqual(len(self.said), len(BLOCKS))
        self.assertEqual({language for language, _ in BLOCKS}, {"sh", "python"})

    def test_the_answer_and_its_stream_are_the_same_text(self):
        said = self.block('"stream": true')
        answer, end = json.JSONDecoder().raw_decode(said)
        lines = [line[len("data: "):] for line in said[end:].splitlines() if line.startswith("data: ")]
        self.assertEqual(lines[-1], "[DONE]")
        text = "".join(choice["delta"].get("content") or "" for line in lines[:-1] for choice in json.loads(line)["choices"])
        self.assertEqual(text, answer["choices"][0]["message"]["content"])
        self.assertTrue(text)

    def test_the_client_printed_an_answer(self):
        self.assertTrue(self.block("import openai"))

    def test_embeddings_and_models(self):
        said = self.block("/v1/embeddings")
        embeddings, end = json.JSONDecoder().raw_decode(said)
        self.assertEqual(len(embeddings["data"]), 2)
        self.assertEqual([model["id"] for model in json.loads(said[end:])["data"]], ["smollm2-135m-instruct"])

    def test_what_operators_ask(self):
        self.assertRegex(self.block("/metrics"), r"(?m)millrace_time_to_first_token_seconds_count \d+$")

    def test_both_servers_were_stopped_and_cut_nothing(self):
        self.assertEqual(len(re.findall(r" info stopped +cut=0 ", self.log)), 2, self.log)

    def test_without_a_key_nothing_with_one_all(self):
        said = self.block("keys.txt")
        self.assertRegex(said, r"(?m)(^|})401$")
        self.assertIn('"smollm2-135m-instruct"', said.split("401")[1])


if __name__ == "__main__":
    unittest.main(verbosity=1)
