#!/usr/bin/env python3
"""Kind 8 of the reported cases, the part that is about bodies: O8.1 to O8.4 and O8.8 to O8.10. The rest is in clients_test.py.

The shared server runs with stacks of 1 MiB: what recurses per bracket ends there.
"""
import json
import time

import models
from case import Case, main
from said import CHAT, COMPLETIONS, MESSAGES, RESPONSES, said_of_answer, said_of_events, streamed, user
from server_process import SLOW, SMALL_STACK
from wire import request_bytes

COIN = {66: {66: 0.5, 67: 0.5}, 67: {66: 0.5, 67: 0.5}}
BOTH = (CHAT, COMPLETIONS)


class Bodies(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve(models.scripted(cls.folder / "m", {**COIN, 10: {66: 0.5, 67: 0.5}}), preexec=SMALL_STACK)

    def test_o8_1_bodies_of_the_wrong_shape(self):
        bodies = ["", "{:", '{"messages":[', "[]", '"x"', "null", "{}", '{"messages":1}', '{"messages":"hi"}', '{"messages":[]}', '{"messages":[null]}',
                  '{"messages":[{}]}', '{"messages":[{"role":"user"}]}', '{"messages":[{"role":5,"content":"a"}]}',
                  '{"messages":[{"role":"wizard","content":"a"}]}', '{"messages":[{"role":"user","content":5}]}', '{"prompt":{}}', '{"prompt":null}',
                  '{"prompt":true}', '{"prompt":"a","stop":5}', '{"prompt":"a"} x', '{"prompt":"a","prompt":"b"}',
                  '{"messages":[{"role":"user","content":"a","content":"b"}]}', " ", "\0", '{"prompt":"a",}', "{'prompt':'a'}", '{"prompt":"a\nb"}',
                  '{"prompt":"a","max_tokens":01}', "\ufeff" + '{"prompt":5}']
        for path in (*BOTH, MESSAGES, RESPONSES):
            for body in bodies:
                if path == MESSAGES:
                    answer = self.server.post(path, body)
                    self.assertEqual((answer.status, answer.json["type"]), (400, "error"), (body, answer))
                    self.assertEqual(answer.json["error"]["type"], "invalid_request_error")
                else:
                    self.e400(self.server, path, body)
        self.alive(self.server)

    def test_o8_1_the_message_says_where(self):
        for path, body, where in [(CHAT, {"messages": [{"role": "wizard", "content": "a"}]}, "messages[0].role"),
                                  (CHAT, {"messages": user("a") + [{"role": "user", "content": 5}]}, "messages[1].content"),
                                  (COMPLETIONS, {"prompt": "a", "temperature": "hot"}, "temperature"), (CHAT, {}, "messages"), (COMPLETIONS, {}, "prompt"),
                                  (COMPLETIONS, {"prompt": "a", "stream": "yes"}, "stream"), (COMPLETIONS, {"prompt": "a", "model": 5}, "model")]:
            error = self.e400(self.server, path, body, where)
            self.assertEqual(error["param"], where)

    def test_o8_2_deep_nesting(self):
        for n in (3000, 100_000, 5_000_000):
            deep = b"[" * n + b"]" * n
            for path, body in [(COMPLETIONS, b'{"prompt":"a","x":' + deep + b"}"),
                               (CHAT, b'{"messages":[{"role":"user","content":"a"}],"tools":' + deep + b"}"), (COMPLETIONS, b'{"a":' * n)]:
                self.e400(self.server, path, body, status=(400, 413), within=2)
        self.alive(self.server)

    def test_o8_3_lone_surrogates(self):
        good = self.ok(self.server, CHAT, '{"messages":[{"role":"user","content":"\\ud83d\\ude00"}],"max_tokens":1}')
        self.assertEqual(good["usage"]["prompt_tokens"], self.ok(self.server, CHAT, {"messages": user("\U0001F600"), "max_tokens": 1})["usage"]["prompt_tokens"])
        for bad in ("emoji \\ud83d", "x \\ude00 y", "\\ud83d\\u0041", "\\ud83d\\ud83d\\ude00", "\\ude00\\ud83d"):
            asked = '{"role":"user","content":"a"}'
            for more in (f'"messages":[{{"role":"user","content":"{bad}"}}]', f'"messages":[{asked}],"{bad}":1', f'"messages":[{asked}],"stop":["{bad}"]',
                         f'"messages":[{asked}],"model":"{bad}"', f'"messages":[{asked}],"user":"{bad}"',
                         f'"messages":[{asked}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{{"title":"{bad}"}}}}}}]'):
                for stream in ("true", "false"):
                    self.e400(self.server, CHAT, f'{{{more},"stream":{stream},"max_tokens":1}}')
        self.alive(self.server)

    def test_o8_4_bytes_that_are_no_utf8(self):
        for bad in (b"a\xff\xfeb", b"\xc0\x80", b"\xed\xa0\xbd", b"\xf4\x90\x80\x80", b"\x80", b"\xc3"):
            self.e400(self.server, COMPLETIONS, b'{"prompt":"' + bad + b'"}')
            self.e400(self.server, COMPLETIONS, b'{"prompt":"a","model":"' + bad + b'"}')
            self.e400(self.server, COMPLETIONS, b'{"prompt":"a","' + bad + b'":1}')
        self.e400(self.server, COMPLETIONS, b'{"prompt":"a\xe6\xbc')
        for path in (b"/v1/\xff", b"/v1/%ff", b"/v1/%c0%80", b"/v1/models/%ff"):
            with self.server.wire() as wire:
                answer = wire.send(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").answer()
            self.assertIn(answer.status, (400, 404), path)
            self.assertIsInstance(answer.json["error"]["message"], str)
        self.alive(self.server)

    def test_o8_8_errors_before_a_stream(self):
        ask = {"messages": user("q"), "stream": True}
        for names, more in (("n", {"n": 0}), ("temperature", {"temperature": -1}), ("512", {"messages": user("x" * 600)})):
            self.e400(self.server, CHAT, {**ask, **more}, names)
        error = self.e400(self.server, CHAT, {**ask, "model": "no such model"}, "no such model", status=404)
        self.assertEqual(error["code"], "model_not_found")

    def test_o8_8_errors_in_a_stream(self):
        server = self.serve_here(models.heavy(self.folder / "heavy"))
        for path, body in ((COMPLETIONS, {"prompt": "a"}), (CHAT, {"messages": user("q")})):
            start = time.monotonic()
            events = server.stream(path, {**body, "ignore_eos": True, "max_tokens": 3000, "stream": True, "timeout_ms": 500})
            self.assertLess(time.monotonic() - start, 5 * SLOW)
            self.assertGreater(len(events), 2)
            told = [e for e in events if e.data != "[DONE]" and "error" in e.data]
            self.assertEqual(len(told), 1, events[-3:])
            self.assertIs(next(e for e in reversed(events) if e.data != "[DONE]"), told[0])
            self.assertTrue(told[0].data["error"]["message"])
        answer = server.post(COMPLETIONS, {"prompt": "a", "ignore_eos": True, "max_tokens": 3000, "timeout_ms": 500})
        self.assertEqual(answer.status, 408, answer)
        self.alive(server)

    def test_o8_9_usage_in_streams(self):
        for path, body in ((CHAT, {"messages": user("q")}), (COMPLETIONS, {"prompt": "B"})):
            for n in (1, 2):
                asked = {**body, "n": n, "max_tokens": 5, "seed": 1}
                whole = self.ok(self.server, path, asked)
                events = self.server.stream(path, {**asked, "stream": True, "stream_options": {"include_usage": True}})
                self.assertEqual(events[-1].data, "[DONE]")
                chunks = [e.data for e in events[:-1]]
                self.assertEqual(chunks[-1]["choices"], [])
                details = lambda usage: {k: v for k, v in usage.items() if isinstance(v, int)}
                self.assertEqual(details(chunks[-1]["usage"]), details(whole["usage"]))
                self.assertTrue(all(c["choices"] and c.get("usage") is None for c in chunks[:-1]))
                for more in ({}, {"stream_options": {"include_usage": False}}, {"stream_options": None}):
                    quiet = self.server.stream(path, {**asked, "stream": True, **more})
                    self.assertTrue(all(e.data == "[DONE]" or (e.data["choices"] and e.data.get("usage") is None) for e in quiet))
                for what in ("id", "created", "model", "object"):
                    self.assertEqual(len({c[what] for c in chunks}), 1, what)
                ends = [c["index"] for chunk in chunks for c in chunk["choices"] if c.get("finish_reason")]
                self.assertEqual(sorted(ends), list(range(n)))
                if path == CHAT:
                    for i in range(n):
                        first = next(c for chunk in chunks for c in chunk["choices"] if c["index"] == i)
                        self.assertEqual(first["delta"]["role"], "assistant")
            self.e400(self.server, path, {**body, "stream_options": {"include_usage": True}}, "stream_options")
            for odd in ({"include_usage": "yes"}, 5, []):
                self.e400(self.server, path, {**body, "stream": True, "stream_options": odd}, "stream_options")

    def test_o8_10_several_answers(self):
        for path, body in ((COMPLETIONS, {"prompt": "B"}), (CHAT, {"messages": user("q")})):
            hot = {**body, "n": 3, "max_tokens": 40, "temperature": 1, "seed": 7}
            whole, _ = self.same(self.server, path, hot)
            said = said_of_answer(path, whole)
            self.assertEqual(sorted(said.choices), [0, 1, 2])
            self.assertEqual(len({text for text, _ in said.choices.values()}), 3)
            self.assertEqual(whole["usage"]["completion_tokens"], 120)
            self.assertEqual(whole["usage"]["prompt_tokens"], self.ok(self.server, path, {**hot, "n": 1})["usage"]["prompt_tokens"])
            self.assertEqual(said.choices[0], said_of_answer(path, self.ok(self.server, path, {**hot, "n": 1})).choices[0])
            cold, _ = self.same(self.server, path, {**hot, "temperature": 0})
            self.assertEqual(len({text for text, _ in said_of_answer(path, cold).choices.values()}), 1)
            wire, events = self.server.start_stream(path, {**hot, "max_tokens": 400, "stream": True})
            next(events)
            wire.reset()
            self.assertIsNotNone(self.server.settle())
        several = self.ok(self.server, COMPLETIONS, {"prompt": [[66], [67], [66, 67]], "n": 2, "max_tokens": 3, "temperature": 0})
        self.assertEqual([c["index"] for c in several["choices"]], list(range(6)))
        self.assertEqual(several["usage"]["prompt_tokens"], 4)
        self.assertEqual(several["usage"]["completion_tokens"], 18)

    def test_http_methods_and_paths(self):
        for method, path, want in (("GET", CHAT, 405), ("POST", "/v1/models", 405), ("POST", "/metrics", 405), ("GET", "/nothing", 404), ("POST", "/v1/nothing", 404),
                                   ("DELETE", COMPLETIONS, 405), ("PUT", "/health", 405)):
            answer = self.server.ask(method, path)
            self.assertEqual(answer.status, want, (method, path))
            self.assertTrue(answer.json["error"]["message"])
            if want == 405:
                self.assertIn("allow", answer.headers)
        wrong = self.server.post(COMPLETIONS, '{"prompt":"a"}', headers=[("Content-Type", "text/plain")])
        self.assertEqual(wrong.status, 415, wrong)
        right = self.server.post(COMPLETIONS, '{"prompt":"B","max_tokens":1}', headers=[("Content-Type", "Application/JSON")])
        self.assertEqual(right.status, 200, right)
        with self.server.wire() as wire:  # a request id comes back
            wire.send(request_bytes("POST", COMPLETIONS, json.dumps({"prompt": "B", "max_tokens": 1}).encode(), [("X-Request-Id", "my-id-7")]))
            self.assertEqual(wire.answer().headers["x-request-id"], "my-id-7")


if __name__ == "__main__":
    main()
