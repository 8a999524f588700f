"""OpenAI's own Node.js client against the server: the stories of node_stories.mjs."""
import pathlib
import subprocess
import unittest

from environment import node_environment
from served import MODEL, Server

FOLDER = node_environment()


class Node(unittest.TestCase):
    def test_stories(self):
        with Server() as server:
            done = subprocess.run(["node", pathlib.Path(__file__).with_name("node_stories.mjs"), server.url, MODEL], cwd=FOLDER,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=1)
