#!/usr/bin/env python3
"""Kind 4 of the reported cases through HTTP: stop strings, token limits, the edge of the context, end tokens.

The model answers `STOP` and a smiling face, as ST, OP, four bytes and EOS. Each request is also streamed.
"""
import models
from case import Case, main
from said import CHAT, COMPLETIONS, user

SMILE = "\U0001F600"


class Stopping(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve(models.scripted(cls.folder / "m3", {10: 270, 270: 271, 271: 240, 240: 159, 159: 152, 152: 128}))

    def chat(self, **more):
        return self.text(self.server, CHAT, {"messages": user("q"), "temperature": 0, **more})

    def refused(self, names, **more):
        body = {"messages": user("q"), "temperature": 0, **more}
        for stream in (False, True):
            self.e400(self.server, CHAT, {**body, "stream": stream}, names, within=1)

    def test_o4_1_a_stop_string_over_two_tokens(self):
        for stop in (["STOP"], "STOP"):
            self.assertEqual(self.chat(stop=stop), ("", "stop", 2))
            _, events = self.same(self.server, CHAT, {"messages": user("q"), "temperature": 0, "stop": stop})
            self.assertEqual({c["delta"].get("content") or "" for e in events if e.data != "[DONE]" for c in e.data["choices"]}, {""})

    def test_o4_2_a_stop_string_inside_tokens(self):
        self.assertEqual(self.chat(stop=["TO"])[:2], ("S", "stop"))
        self.assertEqual(self.chat(stop=["P" + SMILE])[:2], ("STO", "stop"))

    def test_o4_3_what_was_held_back_comes_out(self):
        self.assertEqual(self.chat(stop=["STOX", "OP" + SMILE + "!"])[:2], ("STOP" + SMILE, "stop"))

    def test_o4_4_odd_stop_values(self):
        for stop in ("", [""], ["a", ""], [1], {"a": 1}, ["s"] * 500_000, "x" * (1 << 20), ["s"] * 17):
            self.refused("stop", stop=stop)
        for stop in (None, [], ["s%d" % i for i in range(16)]):
            self.assertEqual(self.chat(stop=stop)[:2], ("STOP" + SMILE, "stop"))
        self.alive(self.server)

    def test_o4_5_small_limits_and_their_reasons(self):
        want = {1: ("ST", "length", 1), 2: ("STOP", "length", 2), 6: ("STOP" + SMILE, "length", 6), 0: ("", "length", 0)}
        for name in ("max_tokens", "max_completion_tokens"):
            for n, said in want.items():
                self.assertEqual(self.chat(**{name: n}), said, (name, n))
            for n in (7, None):
                self.assertEqual(self.chat(**{name: n})[:2], ("STOP" + SMILE, "stop"), (name, n))
            self.refused(name, **{name: -1})
            self.refused(name, **{name: 1.5})
            self.refused(name, **{name: "7"})
        self.assertEqual(self.chat(max_tokens=6, max_completion_tokens=1), want[1])

    def test_o4_6_at_the_edge_of_the_context(self):
        server = self.serve_here(models.random_model(self.folder / "r", 2))
        digits = lambda n: ("0741852963" * (n // 10 + 1))[:n]
        for n in (510, 511, 512, 513, 5000):
            for most in (1, 100):
                body = {"prompt": digits(n), "max_tokens": most, "ignore_eos": True, "temperature": 0}
                if n + most <= 512:
                    self.assertEqual(self.text(server, COMPLETIONS, body)[1:], ("length", most))
                else:
                    error = self.e400(server, COMPLETIONS, body, str(n))
                    self.assertIn("512", error["message"])
                    self.e400(server, COMPLETIONS, {**body, "stream": True}, str(n))
            chat = {"prompt": digits(n), "ignore_eos": True, "temperature": 0}  # without a limit: what is left
            if n < 512:
                self.assertEqual(self.text(server, COMPLETIONS, chat)[1:], ("length", 512 - n))
            else:
                self.e400(server, COMPLETIONS, chat, str(n))
        self.alive(server)

    def test_o4_7_several_end_tokens(self):
        chain = {10: 260, 260: 303, 303: 266}
        two = [301, 303]
        edits = [{"generation_config.json": {"eos_token_id": two}},
                 {"generation_config.json": None, "config.json": {"eos_token_id": two}},
                 {"generation_config.json": None, "config.json": {"eos_token_id": None}, "tokenizer_config.json": {"eos_token": "<|im_end|>"}}]
        for i, edit in enumerate(edits):
            server = self.serve_here(models.scripted(self.folder / f"ends{i}", chain, edit=edit))
            body = {"messages": user("q"), "temperature": 0}
            self.assertEqual(self.text(server, CHAT, body)[:2], ("hello", "stop"), edit)
            on = self.text(server, CHAT, {**body, "ignore_eos": True, "max_tokens": 3})
            self.assertEqual(on, ("hello world", "length", 3), edit)
            server.stop()


if __name__ == "__main__":
    main()
