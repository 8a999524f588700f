#!/usr/bin/env python3
"""Kind 12 of the reported cases: start, stop, files; and what a supervisor sees: 10,000 idle connections, SIGTERM under load."""
import fcntl
import json
import os
import pathlib
import resource
import signal
import socket
import statistics
import subprocess
import threading
import time

import models
from case import Case, main
from said import COMPLETIONS, said_of_answer, said_of_events, streamed
from server_process import BIN, SLOW
from wire import Wire, request_bytes

IDLE = 10_000


def serve_and_fail(*words, timeout=20 * SLOW, preexec=None):
    """(exit status, standard error, seconds)"""
    start = time.monotonic()
    done = subprocess.run([BIN, "serve", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, preexec_fn=preexec)
    return done.returncode, done.stderr.decode(), time.monotonic() - start


class Start(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = models.random_model(cls.folder / "r", 2, context=16384)

    def reject(self, words, *says, preexec=None):
        status, text, took = serve_and_fail(*words, preexec=preexec)
        self.assertTrue(1 <= status <= 125, (words, status, text))
        errors = [line for line in text.splitlines() if line.startswith("millrace: ")]
        self.assertEqual(len(errors), 1, (words, text))
        for word in says:
            self.assertRegex(errors[0], word, words)
        self.assertLess(took, 2 * SLOW, words)
        return errors[0]

    def test_o12_1_ports_that_cannot_be_had(self):
        first = self.serve_here(self.model)
        self.reject([self.model, "--port", first.port], r"127\.0\.0\.1", str(first.port), "in use")
        large = models.heavy(self.folder / "large", 2048, 8, holes=True)  # not loaded first
        self.reject([large, "--port", first.port], "in use")
        with socket.create_server(("127.0.0.1", 0)) as held:
            self.reject([self.model, "--port", held.getsockname()[1]], str(held.getsockname()[1]), "in use")
        self.reject([self.model, "--port", 0, "--host", "203.0.113.1"], r"203\.0\.113\.1", "address")
        self.reject([self.model, "--port", 0, "--host", "nosuch.invalid"], r"nosuch\.invalid", "resolve")
        self.reject([self.model, "--port", 70000], "port")
        if os.geteuid() == 0:
            start = int(pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
            if start > 80:
                os.chmod(self.folder, 0o755)
                if subprocess.run(["test", "-x", BIN], preexec_fn=lambda: os.setuid(65534)).returncode == 0:
                    self.reject([self.model, "--port", 80], "80", "permi", preexec=lambda: os.setuid(65534))
        self.alive(first)

    def test_o12_2_signals_when_idle(self):
        for which in (signal.SIGTERM, signal.SIGINT):
            for connected in (False, True):
                server = self.serve_here(self.model)
                if connected:
                    wire = server.wire()
                    wire.send(request_bytes("GET", "/health")).answer("GET")
                start = time.monotonic()
                self.assertEqual(server.stop(which), 0)
                self.assertLess(time.monotonic() - start, 2 * SLOW)
                again = self.serve_here(self.model, port=server.port)
                self.assertEqual(again.port, server.port)
                self.assertEqual(again.stop(), 0)

    def test_o12_2_as_the_first_process(self):
        unshare = ["unshare", "--pid", "--fork", "--kill-child"]
        if os.geteuid() or subprocess.run([*unshare, "true"], capture_output=True).returncode:
            self.skipTest("no new process namespace here")
        process = subprocess.Popen([*unshare, BIN, "serve", str(self.model), "--port", "0"], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            while "ready" not in (line := process.stderr.readline().decode()):
                self.assertTrue(line, "it ended")
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGTERM)
            self.assertEqual(process.wait(10 * SLOW), 0)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_o12_4_wrong_model_paths(self):
        empty = self.folder / "empty.gguf"
        empty.touch()
        (self.folder / "no config").mkdir()
        text = self.folder / "text.gguf"
        text.write_text("this is no model\n" * 100)
        dangling = self.folder / "dangling.gguf"
        dangling.symlink_to("nowhere")
        for path in (self.folder / "missing.gguf", self.folder / "no config", empty, "/dev/null", "/dev/zero", dangling, text):
            self.reject([path, "--port", 0], str(path))
        self.reject(["", "--port", 0])
        self.reject([text, "--port", 0, "--served-model-name", ""], "served-model-name")
        status, _, _ = serve_and_fail("--port", 0)
        self.assertEqual(status, 2)
        odd = models.random_model(self.folder / "a folder é", 2)
        self.assertEqual(self.serve_here(odd).stop(), 0)

    def test_too_little_memory_is_said_at_once(self):
        self.reject([self.model, "--port", 0, "--kv-memory", "900TiB"], "memory|fit")
        self.reject([self.model, "--port", 0, "--api-keys", self.folder / "no keys"], "no keys")
        self.reject([self.model, "--port", 0, "--tls-cert", self.folder / "no.pem", "--tls-key", self.folder / "no.pem"], "no.pem")

    def test_a_pipe_is_no_file_of_keys(self):
        """To open one that nobody writes to would wait for ever."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        says = f"'{pipe}': it is a pipe, expected a regular file"
        self.reject([self.model, "--port", 0, "--api-keys", pipe], says)
        self.reject([self.model, "--port", 0, "--tls-cert", pipe, "--tls-key", pipe], "certificate " + says)

    def test_o12_5_a_full_disk_behind_the_log(self):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with open("/dev/full", "w") as full:
            process = subprocess.Popen([BIN, "serve", str(self.model), "--port", str(port)], stdout=full, stderr=full, stdin=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 20 * SLOW
            answered = 0
            while answered < 50 and time.monotonic() < end:
                try:
                    with Wire(("127.0.0.1", port)) as wire:
                        wire.send(request_bytes("POST", COMPLETIONS, json.dumps({"prompt": "1", "max_tokens": 1}).encode()))
                        status = wire.answer().status
                        self.assertIn(status, (200, 503))
                        answered += status == 200
                except ConnectionRefusedError:
                    time.sleep(0.05)
            self.assertEqual(answered, 50)
            process.terminate()
            self.assertEqual(process.wait(10 * SLOW), 0)
        finally:
            process.kill()
            process.wait()

    def test_nobody_reads_the_log(self):
        """A full pipe behind standard error stops the log, and nothing else."""
        for signals in (1, 2):
            with socket.create_server(("127.0.0.1", 0)) as probe:
                port = probe.getsockname()[1]
            reader, writer = os.pipe()
            self.addCleanup(os.close, reader)
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            process = subprocess.Popen([BIN, "serve", str(self.model), "--port", str(port)], stdout=subprocess.DEVNULL, stderr=writer, stdin=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            os.close(writer)

            def ask(method, path, body=b""):
                with Wire(("127.0.0.1", port), timeout=10 * SLOW) as wire:
                    return wire.send(request_bytes(method, path, body, [("Connection", "close")])).answer(method)
            end = time.monotonic() + 20 * SLOW
            while time.monotonic() < end:
                try:
                    if ask("GET", "/health").status == 200:
                        break
                except ConnectionRefusedError:
                    pass
                time.sleep(0.05)
            for _ in range(300):  # some 50 KB of lines
                self.assertEqual(ask("POST", "/tokenize", b'{"content":"1"}').status, 200)
            self.assertEqual(ask("GET", "/health").status, 200)
            self.assertIn("millrace_log_lines_dropped_total 0", ask("GET", "/metrics").text)
            start = time.monotonic()
            for _ in range(signals):
                process.terminate()
            self.assertEqual(process.wait(10 * SLOW), 0)
            self.assertLess(time.monotonic() - start, 4 * SLOW)

    def test_a_unix_socket(self):
        path = str(self.folder / "s.sock")
        server = self.serve_here(self.model, "--unix-socket", path)
        with Wire(path) as wire:
            answer = wire.send(request_bytes("POST", COMPLETIONS, json.dumps({"prompt": "1", "max_tokens": 1}).encode())).answer()
            self.assertEqual(answer.status, 200)
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(path), "it takes its socket with it")

    def test_a_unix_socket_of_a_server_that_was_stopped_while_loading(self):
        path = str(self.folder / "l.sock")
        large = models.heavy(self.folder / "large socket", 2048, 8, holes=True)
        server = self.serve_here(large, "--unix-socket", path, wait=False)
        self.assertTrue(os.path.exists(path))
        self.assertEqual(server.stop(signal.SIGINT), 0)
        self.assertRegex(server.log(), "stopped.*while=loading")
        self.assertFalse(os.path.exists(path))

    def test_streams_that_were_closed_are_opened(self):
        """Else the log would go to the first socket."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        process = subprocess.Popen([BIN, "serve", str(self.model), "--port", str(port)], preexec_fn=lambda: os.closerange(0, 3))
        try:
            end = time.monotonic() + 20 * SLOW
            status = None
            while status != 200 and time.monotonic() < end:
                try:
                    with Wire(("127.0.0.1", port)) as wire:
                        status = wire.send(request_bytes("POST", COMPLETIONS, json.dumps({"prompt": "1", "max_tokens": 1}).encode())).answer().status
                except ConnectionRefusedError:
                    pass
                time.sleep(0.05)
            self.assertEqual(status, 200)
            self.assertEqual({os.readlink(f"/proc/{process.pid}/fd/{i}") for i in range(3)}, {"/dev/null"})
            process.terminate()
            self.assertEqual(process.wait(10 * SLOW), 0)
        finally:
            process.kill()
            process.wait()

    def test_every_line_of_a_json_log_is_an_object(self):
        server = self.serve_here(self.model, "--log-json", "--kv-memory", "4MiB")
        server.post(COMPLETIONS, {"prompt": "1", "max_tokens": 2}, [("X-Request-Id", 'odd"\\id')])
        server.post(COMPLETIONS, {"prompt": 5})
        self.assertEqual(server.stop(), 0)
        events = [json.loads(line) for line in server.lines if line]
        asked = [(e["id"], e["endpoint"], e["status"]) for e in events if e["event"] == "request ended" and e["endpoint"] == COMPLETIONS]
        self.assertEqual(asked[0], ('odd"\\id', COMPLETIONS, 200))
        self.assertEqual(asked[1][2], 400)
        self.assertEqual([e["event"] for e in events if e["event"] != "request ended"], ["listening", "memory", "ready", "draining", "stopped"])

    def test_keys_are_read_again(self):
        """SIGHUP: new keys count, old ones do not; a file that is wrong then changes nothing."""
        keys = self.folder / "keys"
        keys.write_text("alpha\n")
        server = self.serve_here(self.model, "--api-keys", keys)
        status = lambda key: server.post(COMPLETIONS, {"prompt": "1", "max_tokens": 1}, [("Authorization", f"Bearer {key}")]).status
        self.assertEqual((status("alpha"), status("beta")), (200, 401))
        for text, want in (("beta\n", (401, 200)), (None, (401, 200)), ("a pipe", (401, 200)), ("gamma\nalpha\n", (200, 401))):
            keys.unlink(missing_ok=True)
            if text == "a pipe":
                os.mkfifo(keys)
            elif text is not None:
                keys.write_text(text)
            said = server.log().count("reload")
            server.send_signal(signal.SIGHUP)
            end = time.monotonic() + 3 * SLOW
            while server.log().count("reload") == said and time.monotonic() < end:
                time.sleep(0.05)
            while (status("alpha"), status("beta")) != want and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual((status("alpha"), status("beta")), want)
        self.assertRegex(server.log(), "reload failed.*it is a pipe, expected a regular file")
        self.assertEqual(server.stop(), 0)


class Stop(Case):
    """O12.3: with open streams."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = models.heavy(cls.folder / "heavy", 384, 4, context=8192)

    def ask(self, **more):
        return {"prompt": "0741852963", "ignore_eos": True, "temperature": 0, **more}

    def refused(self, server):
        """New connections are refused, or told 503."""
        end = time.monotonic() + 2 * SLOW
        while time.monotonic() < end:
            try:
                if server.post(COMPLETIONS, self.ask(max_tokens=1), timeout=2).status == 503:
                    return True
            except OSError:
                return True
            time.sleep(0.01)
        return False

    def test_o12_3_streams_end_within_the_grace(self):
        for again in (False, True):
            server = self.serve_here(self.model, "--drain-seconds", 2)
            streams = [server.start_stream(COMPLETIONS, self.ask(max_tokens=8000, stream=True), receive_buffer=2048 if i == 0 else None) for i in range(4)]
            long = server.wire().send(request_bytes("POST", COMPLETIONS, json.dumps(self.ask(prompt="0741852963" * 700, max_tokens=3)).encode()))
            for _, events in streams[1:]:
                next(events)
            start = time.monotonic()
            server.send_signal(signal.SIGTERM)
            if again:
                time.sleep(0.5)
                server.send_signal(signal.SIGTERM)
                server.wait(3)
                self.assertLess(time.monotonic() - start, 1.5 * SLOW)
            else:
                self.assertTrue(self.refused(server))
                last = [list(events)[-2:] for _, events in streams[1:]]  # cut: told so
                for tail in last:
                    self.assertTrue(any(e.data != "[DONE]" and ("error" in e.data or e.data["choices"][0].get("finish_reason")) for e in tail), tail)
                self.assertEqual(server.wait(10), 0)
                self.assertLess(time.monotonic() - start, (2 + 3) * SLOW)
                self.assertRegex(server.log(), r"cut\D*[1-9]|[1-9]\d*\D*cut")
            for wire, _ in streams:
                wire.close()
            long.close()

    def test_a_term_under_load_loses_no_running_answer(self):
        """Done-when 5."""
        server = self.serve_here(self.model, "--drain-seconds", 60)
        body = lambda i: self.ask(prompt=f"{i}", max_tokens=120)
        want = [said_of_answer(COMPLETIONS, self.ok(server, COMPLETIONS, body(i))).choices for i in range(16)]
        streams = [server.start_stream(COMPLETIONS, streamed(COMPLETIONS, body(i))) for i in range(16)]
        first = [next(events) for _, events in streams]
        self.assertEqual(len(first), 16)
        server.send_signal(signal.SIGTERM)
        self.assertTrue(self.refused(server))
        got = self.together([lambda i=i: said_of_events(COMPLETIONS, [first[i], *streams[i][1]]).choices for i in range(16)])
        self.assertEqual(got, want)
        self.assertEqual(server.wait(10), 0)

    def test_a_term_while_a_huge_text_is_tokenized(self):
        server = self.serve_here(self.model, "--drain-seconds", 0)  # else a drain waits for it: what has come is read
        body = json.dumps({"prompt": "a" * 15_000_000, "with_pieces": True, "return_token_strs": True})
        asking = threading.Thread(target=lambda: self.lost(server, body), daemon=True)
        asking.start()
        time.sleep(1)
        start = time.monotonic()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)
        self.assertLess(time.monotonic() - start, 6 * SLOW)
        asking.join(10)

    @staticmethod
    def lost(server, body):
        try:
            server.post("/tokenize", body)
        except (OSError, ValueError, AssertionError):
            pass


class Idle(Case):
    def test_ten_thousand_idle_connections(self):
        """P16: who only holds a connection costs nothing."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        need = IDLE + 500
        if hard != resource.RLIM_INFINITY and hard < need:
            self.skipTest(f"{IDLE} connections need {need} descriptors, the hard limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, need), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        server = self.serve_here(models.scripted(self.folder / "m", {66: 66}))

        def usual():
            took = []
            for _ in range(60):
                start = time.monotonic()
                self.ok(server, COMPLETIONS, {"prompt": "B", "max_tokens": 20, "ignore_eos": True})
                took.append(time.monotonic() - start)
            return statistics.median(took)
        alone = usual()
        rss = server.rss()
        wires = []
        for i in range(IDLE):
            wire = server.wire()
            if i % 10 == 0:
                wire.send(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            wires.append(wire)
        for wire in wires[::10]:
            self.assertEqual(wire.answer("GET").status, 200)
        for _ in range(3):  # a busy machine gets three tries
            beside = usual()
            before = server.cpu_seconds()
            time.sleep(2)
            cpu = server.cpu_seconds() - before
            if beside <= 1.5 * alone + 0.002 and cpu <= 0.02:
                break
        print(f"{IDLE} idle connections: {alone * 1e3:.2f} ms alone, {beside * 1e3:.2f} ms beside them, {cpu:.2f} s of CPU in 2 s, "
              f"{(server.rss() - rss) / IDLE / 1024:.1f} KiB each")
        self.assertLessEqual(beside, 1.5 * alone * SLOW + 0.002)
        self.assertLessEqual(cpu, 0.02)
        for wire in wires:
            wire.close()
        self.alive(server, 10)
        end = time.monotonic() + 10 * SLOW
        while server.descriptors() > 100 and time.monotonic() < end:
            time.sleep(0.1)
        self.assertLess(server.descriptors(), 100)


if __name__ == "__main__":
    main()
