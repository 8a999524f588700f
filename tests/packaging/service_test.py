"""A server as systemd runs it: what it tells its manager, and sockets that it is handed. No systemd is needed: the protocol
is a datagram socket, and descriptors from 3 on."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
from served import BIN, Server, default_model, wait_for  # noqa: E402

# Starts a program as a manager does: the descriptor argv[1] as number 3, and variables that say whose it is.
ACTIVATE = ("import os, sys; os.dup2(int(sys.argv[1]), 3); "
            "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])")


def get_health(connection):
    """/health over a connection that is open already; the status, or None where the other side has closed."""
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    head = connection.makefile("rb").readline()
    return int(head.split()[1]) if head else None


class Notify(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "notify")
        self.manager = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self.manager.bind(self.path)
        self.manager.settimeout(60)

    def states_until(self, last):
        states = []
        while not any(state.startswith(last) for state in states):
            states += self.manager.recv(4096).decode().splitlines()
        return states

    def test_it_says_loading_ready_and_stopping(self):
        server = Server(env={"NOTIFY_SOCKET": self.path})
        with server:
            states = self.states_until("READY=1")
            self.assertTrue(states[0].startswith("STATUS=loading"), states)
            self.assertEqual(states.count("READY=1"), 1)
            self.assertEqual(server.get("/health").status, 200)
            server.process.send_signal(signal.SIGTERM)
            self.assertIn("STOPPING=1", self.states_until("STOPPING=1"))
            self.assertEqual(server.process.wait(15), 0)

    def test_its_watchdog_hears_of_it_while_it_is_idle_and_while_it_works(self):
        with Server(env={"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": "1000000"}) as server:
            self.states_until("READY=1")
            for work in (lambda: None, lambda: server.post("/v1/completions", {"prompt": "a", "max_tokens": 150, "ignore_eos": True})):
                work()
                before = time.monotonic()
                for _ in range(3):
                    self.states_until("WATCHDOG=1")
                self.assertLess(time.monotonic() - before, 10)

    def test_a_server_that_cannot_start_never_says_ready(self):
        done = subprocess.run([BIN, "serve", "/nonexistent.gguf", "--port", "0"], env={**os.environ, "NOTIFY_SOCKET": self.path},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.manager.setblocking(False)
        states = []
        try:
            while True:
                states.append(self.manager.recv(4096).decode())
        except BlockingIOError:
            pass
        self.assertNotIn("READY=1", "\n".join(states))

    def test_a_manager_that_does_not_listen_is_no_reason_to_stop(self):
        self.manager.close()
        with Server(env={"NOTIFY_SOCKET": self.path}) as server:
            self.assertEqual(server.get("/health").status, 200)


class SocketActivation(unittest.TestCase):
    def start(self, descriptor, *options):
        self.log = self.enterContext(tempfile.TemporaryFile("w+"))
        process = subprocess.Popen([sys.executable, "-c", ACTIVATE, str(descriptor), BIN, "serve", str(default_model()), *options],
                                   pass_fds=(descriptor,), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.addCleanup(self.stop, process)
        return process

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        self.log.seek(0)
        self.assertEqual(status, 0, self.log.read())

    def test_a_connection_from_before_the_start_is_answered(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = self.enterContext(socket.create_connection(listening.getsockname(), timeout=60))
            taken = self.enterContext(socket.create_server(("127.0.0.1", 0)))  # --port is taken: it has no say
            self.start(listening.fileno(), "--port", str(taken.getsockname()[1]))
            self.assertIn(get_health(client), (200, 503))  # 503: loading
            wait_for("/health", lambda: get_health(client) == 200, 60)

    def test_a_unix_socket(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.join(folder, "m.sock"))
            listening.listen()
            client = self.enterContext(socket.socket(socket.AF_UNIX))
            client.settimeout(60)
            client.connect(os.path.join(folder, "m.sock"))
            self.start(listening.fileno())
            wait_for("/health", lambda: get_health(client) == 200, 60)

    def test_what_does_not_listen_is_refused(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            done = subprocess.run([sys.executable, "-c", ACTIVATE, str(datagrams.fileno()), BIN, "serve", str(default_model())],
                                  pass_fds=(datagrams.fileno(),), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("descriptor 3 from the service manager is no listening stream socket", done.stderr)

    @unittest.skipUnless(shutil.which("systemd-socket-activate"), "systemd-socket-activate is not there")
    def test_by_systemd_socket_activate(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.log = self.enterContext(tempfile.TemporaryFile("w+"))
        process = subprocess.Popen(["systemd-socket-activate", "--listen", f"127.0.0.1:{port}", BIN, "serve", str(default_model())],
                                   stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.addCleanup(self.stop, process)

        def connected():
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=60)
            except ConnectionRefusedError:
                return None

        with wait_for("a listener", connected) as client:  # its first connection starts the server
            wait_for("/health", lambda: get_health(client) == 200, 60)


if __name__ == "__main__":
    unittest.main(verbosity=1)
