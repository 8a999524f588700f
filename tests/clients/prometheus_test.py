"""/metrics as Prometheus reads it: promtool finds nothing to say, a real Prometheus scrapes the server, and every query of
packaging/grafana/millrace.json has an answer there, from metrics that exist."""
import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.parse

from served import MODEL, ROOT, Server, skip_all, wait_for

for tool in ("promtool", "prometheus"):
    if not shutil.which(tool):
        skip_all(f"{tool} is not there: Debian's package prometheus has it")

BOARD = json.loads((ROOT / "packaging/grafana/millrace.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
# What stands in a query for a variable of the board.
VARIABLES = {"$__rate_interval": "20s", "$instance": ".*"}

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: millrace
    static_configs: [{{targets: ["{target}"]}}]
"""


def queries():
    for panel in PANELS:
        for target in panel["targets"]:
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            yield panel["title"], query


def families(page):
    """{name as queries say it: type}: a histogram's parts by their own names."""
    out = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M):
        for part in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",)):
            out[name + part] = kind
    return out


def work(server):
    """Requests of all sorts, some of them wrong."""
    chat = {"messages": [{"role": "user", "content": "Name three colours, and say why you like them."}], "max_tokens": 12, "temperature": 0}
    statuses = [server.post("/v1/chat/completions", body).status for body in
                (chat, chat, {**chat, "stream": True}, {**chat, "temperature": "hot"}, {**chat, "model": "other"}, {**chat, "max_tokens": 1 << 30})]
    assert statuses == [200, 200, 200, 400, 404, 400], statuses
    assert server.post("/v1/embeddings", {"input": "a"}).status == 200
    assert server.get("/nothing").status == 404


class Promtool(unittest.TestCase):
    def check(self, server):
        page = server.get("/metrics")
        self.assertEqual(page.status, 200)
        self.assertTrue(page.headers["content-type"].startswith("text/plain; version=0.0.4"), page.headers)
        said = subprocess.run(["promtool", "check", "metrics"], input=page.text, capture_output=True, text=True, timeout=30)
        self.assertEqual((said.returncode, said.stdout + said.stderr), (0, ""))

    def test_nothing_to_say_at_any_time(self):  # O11.3
        with Server() as server:
            self.check(server)  # before the first request
            work(server)
            self.check(server)  # after some, and after errors

    def test_another_prefix(self):
        with Server("--metrics-prefix", "vllm:") as server:
            page = server.get("/metrics").text
            self.assertIn("\n# TYPE vllm:time_to_first_token_seconds histogram\n", page)
            self.assertNotIn("millrace_", page)


class Board(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        with socket.create_server(("127.0.0.1", 0)) as free:
            cls.port = free.getsockname()[1]
        (cls.folder / "prometheus.yml").write_text(CONFIG.format(target=f"127.0.0.1:{cls.server.port}"))
        cls.log = cls.enterClassContext(open(cls.folder / "log", "w"))
        cls.prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={cls.folder}/prometheus.yml", f"--storage.tsdb.path={cls.folder}/data",
             f"--web.listen-address=127.0.0.1:{cls.port}", "--storage.tsdb.retention.time=1h"], stdin=subprocess.DEVNULL, stdout=cls.log, stderr=cls.log)
        cls.addClassCleanup(cls.stop)
        wait_for("a scrape", lambda: cls.value('up{job="millrace"}') == 1, 60, every=0.2)

    @classmethod
    def stop(cls):
        cls.prometheus.terminate()
        try:
            cls.prometheus.wait(20)
        except subprocess.TimeoutExpired:
            cls.prometheus.kill()
            cls.prometheus.wait()

    @classmethod
    def ask(cls, path, **parameters):
        assert cls.prometheus.poll() is None, (cls.folder / "log").read_text()[-2000:]
        connection = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=20)
        try:
            connection.request("GET", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    @classmethod
    def value(cls, query):
        """Of a query with one series; None: it has none, or Prometheus does not answer yet."""
        try:
            result = cls.ask("query", query=query)["data"]["result"]
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            return None
        return float(result[0]["value"][1]) if result else None

    def test_every_metric_of_the_board_exists(self):
        known = families(self.server.get("/metrics").text)
        for title, query in queries():
            used = re.findall(r"millrace_\w+", query)
            self.assertTrue(used, query)
            for name in used:
                self.assertIn(name, known, title)
                if f"rate({name}" in query:
                    self.assertNotEqual(known[name], "gauge", f"{title}: the rate of a gauge")
        for label_query in re.findall(r"label_values\((\w+),", json.dumps(BOARD["templating"])):
            self.assertIn(label_query, known)

    def test_every_query_of_the_board_has_an_answer(self):
        def asked_often_enough():
            work(self.server)
            return self.value("count_over_time(millrace_request_success_total{finished_reason='length'}[1h])") or 0

        wait_for("some scrapes", lambda: asked_often_enough() >= 6, 90, every=0.2)  # a rate needs two scrapes between which something happened
        empty = []
        for title, query in queries():
            answer = self.ask("query", query=query)
            self.assertEqual((answer["status"], answer.get("warnings")), ("success", None), f"{title}: {query}: {answer}")
            self.assertEqual(answer["data"]["resultType"], "vector")
            if not answer["data"]["result"]:
                empty.append(title)
        self.assertEqual(empty, [])

    def test_what_prometheus_has_is_what_the_server_says(self):
        work(self.server)
        self.assertIsNotNone(self.server.settle(10))
        said = self.server.metric("millrace_generation_tokens_total")
        wait_for("the same number", lambda: self.value("sum(millrace_generation_tokens_total)") == said, 20, every=0.2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
