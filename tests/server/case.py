"""The test case that the tests beside this file are, with the assertions that the reported cases name.

    same     streamed and not, a request says the same: texts, finish reasons, usage
    e400     refused with 400 and a JSON error that names what is wrong; no stream was started
    alive    afterwards the server is well, answers, and its gauges are back at 0

Standard library only. ctest sets MILLRACE_BIN; without it build/release/millrace is taken.
"""
import pathlib
import shutil
import tempfile
import threading
import time
import unittest

from said import COMPLETIONS, said_of_answer, said_of_events, streamed
from server_process import SLOW, Server


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

    def together(self, jobs, timeout=60):
        """All at once, in threads; results in their order."""
        results, failures = [None] * len(jobs), []

        def go(i):
            try:
                results[i] = jobs[i]()
            except Exception as failure:  # noqa: raised below, where it fails the test
                failures.append(failure)
        threads = [threading.Thread(target=go, args=(i,), daemon=True) for i in range(len(jobs))]
        for thread in threads:
            thread.start()
        end = time.monotonic() + timeout * SLOW
        for thread in threads:
            thread.join(max(0, end - time.monotonic()))
            self.assertFalse(thread.is_alive(), "a request hangs")
        if failures:
            raise failures[0]
        return results

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
