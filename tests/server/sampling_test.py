#!/usr/bin/env python3
"""Kind 6 of the reported cases through HTTP: what the sampling fields do, and their edges.

Model c6: after `B` come C 0.5, D 0.3, E 0.2 and nothing else. O6.7 with a JSON schema waits until schemas are served.
"""
import math

import models
from case import Case, main
from said import CHAT, COMPLETIONS, user

C6 = {65: 66, 66: {67: 0.5, 68: 0.3, 69: 0.2}}
COIN = {66: {66: 0.5, 67: 0.5}, 67: {66: 0.5, 67: 0.5}}


class Sampling(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve(models.scripted(cls.folder / "c6", C6))
        cls.coin = cls.serve(models.scripted(cls.folder / "coin", COIN))

    def one(self, **more):
        return self.ok(self.server, COMPLETIONS, {"prompt": "B", "max_tokens": 1, **more})["choices"][0]["text"]

    def letters(self, **more):
        """What 200 draws show."""
        seen = set()
        for seed in (1, 2):
            body = {"prompt": "B", "max_tokens": 1, "temperature": 1, "n": 100, "seed": seed, **more}
            seen |= {c["text"] for c in self.ok(self.server, COMPLETIONS, body)["choices"]}
        return "".join(sorted(seen))

    def refused(self, names, server=None, **more):
        self.e400(server or self.server, COMPLETIONS, {"prompt": "B", "max_tokens": 1, **more}, names, within=1)

    def test_o6_1_temperature_0_and_nearly_0(self):
        for temperature in (0, 1e-9, 1e-4):
            for more in ({"top_p": 1}, {"top_p": 0.1}, {"top_p": 1e-4}, {"top_k": 0}, {"top_k": 1}):
                body = {"prompt": "B", "max_tokens": 1, "temperature": temperature, "n": 20, "logprobs": 3, **more}
                answer = self.ok(self.server, COMPLETIONS, body)
                self.assertEqual({c["text"] for c in answer["choices"]}, {"C"}, body)
                for choice in answer["choices"]:
                    self.assertTrue(math.isfinite(choice["logprobs"]["token_logprobs"][0]), choice)

    def test_o6_2_edges_of_top_p(self):
        self.assertEqual(self.letters(top_p=0.49), "C")
        self.assertEqual(self.letters(top_p=0.79), "CD")
        self.assertEqual(self.letters(top_p=1), "CDE")
        for value in (0, -0.1, 2.0, "0.5"):
            self.refused("top_p", top_p=value)

    def test_o6_3_edges_of_top_k_and_min_p(self):
        for k, want in ((0, "CDE"), (-1, "CDE"), (1, "C"), (2, "CD")):
            self.assertEqual(self.letters(top_k=k), want, k)
        huge = self.server.post(COMPLETIONS, {"prompt": "B", "max_tokens": 1, "top_k": 1_000_000_000})
        if huge.status != 400:
            self.assertEqual(self.letters(top_k=1_000_000_000), "CDE")
        for value in (-5, 1.5):
            self.refused("top_k", top_k=value)
        self.assertEqual(self.letters(min_p=0), "CDE")
        self.assertEqual(self.letters(min_p=0.45), "CD")
        self.assertEqual(self.letters(min_p=1), "C")
        self.refused("min_p", min_p=1.5)

    def test_o6_4_a_seed_says_the_same_alone_and_in_company(self):
        def draw(**more):
            return self.ok(self.coin, COMPLETIONS, {"prompt": "B", "max_tokens": 64, "temperature": 1, **more})["choices"][0]["text"]
        alone = draw(seed=42)
        self.assertEqual(len(alone), 64)
        others = [{}, {}, {"seed": 1}, {"seed": 2}, {"temperature": 0}, {"temperature": 0, "seed": 42}, {"seed": 3}, {"seed": 42}, {"seed": 42}]
        got = self.together([lambda more=more: draw(**more) for more in others])
        self.assertEqual(got[-2:], [alone, alone])
        self.assertNotEqual(draw(seed=43), alone)
        self.assertNotEqual(draw(), draw())
        self.assertEqual(draw(seed=0), draw(seed=0))
        for value in (-1, 2 ** 63, 2 ** 64, "x", 1.5):
            self.refused("seed", self.coin, seed=value)

    def test_o6_5_logit_bias(self):
        for bias, want in (({"67": -100}, "D"), ({"69": 5}, "E"), ({}, "C"), (None, "C")):
            self.assertEqual(self.one(temperature=0, logit_bias=bias), want, bias)
        for bias in ({"320": 1}, {"999999999999": 1}, {"-1": 1}, {"AI": 1}, {"67": "x"}, {"67": 1e9}, [67]):
            self.refused("logit_bias", temperature=0, logit_bias=bias)
        self.alive(self.server)

    def test_o6_6_what_penalties_count(self):
        cb = lambda **more: self.one(prompt="CB", temperature=0, **more)
        self.assertEqual(cb(presence_penalty=2), "C")  # the prompt is not counted
        self.assertEqual(cb(repetition_penalty=2.0), "D")  # here it is: 2 ln 0.5 < ln 0.3
        self.assertEqual(cb(repetition_penalty=1.2), "C")
        server = self.serve_here(models.scripted(self.folder / "frequency", {66: {66: 0.6, 67: 0.4}}))
        body = {"prompt": "B", "temperature": 0, "frequency_penalty": 0.3, "max_tokens": 3}
        self.assertEqual(self.text(server, COMPLETIONS, body)[0], "BBC")
        self.refused("presence_penalty", presence_penalty=3)
        self.refused("frequency_penalty", frequency_penalty=-2.5)
        for value in (0, -1):
            self.refused("repetition_penalty", repetition_penalty=value)

    def test_o6_7_log_probabilities_are_numbers(self):
        want = {"C": -0.693, "D": -1.204, "E": -1.609}
        for more in ({"temperature": 0}, {"temperature": 1}, {"top_k": 1}, {"temperature": 0.01}):
            answer = self.ok(self.server, COMPLETIONS, {"prompt": "B", "max_tokens": 1, "logprobs": 5, **more})
            logprobs = answer["choices"][0]["logprobs"]
            chosen, top = logprobs["tokens"][0], logprobs["top_logprobs"][0]
            self.assertIn(chosen, top)
            for letter, value in want.items():
                self.assertAlmostEqual(top[letter], value, delta=0.02, msg=more)
            self.assertAlmostEqual(logprobs["token_logprobs"][0], want[chosen], delta=0.02)
            self.assertEqual(list(top.values()), sorted(top.values(), reverse=True))
        biased = self.ok(self.server, COMPLETIONS, {"prompt": "B", "max_tokens": 1, "logprobs": 5, "temperature": 0, "logit_bias": {"67": -100}})
        self.assertEqual(biased["choices"][0]["logprobs"]["tokens"], ["D"])
        server = self.serve_here(models.scripted(self.folder / "chat", {10: {67: 0.5, 68: 0.3, 69: 0.2}}))
        for count in (0, 3, 5):
            whole, _ = self.same(server, CHAT, {"messages": user("q"), "temperature": 0, "logprobs": True, "top_logprobs": count, "max_tokens": 1})
            row = whole["choices"][0]["logprobs"]["content"][0]
            self.assertEqual((row["token"], row["bytes"]), ("C", [67]))
            self.assertEqual([t["token"] for t in row["top_logprobs"]][:3], ["C", "D", "E"][:count])
            self.assertEqual(len(row["top_logprobs"]), count)
        for count in (21, -1, "x", 1.5):
            self.e400(server, CHAT, {"messages": user("q"), "logprobs": True, "top_logprobs": count}, "top_logprobs")
            self.refused("logprobs", logprobs=count)
        self.e400(server, CHAT, {"messages": user("q"), "top_logprobs": 2}, "logprobs")

    def test_o6_8_absurd_values(self):
        for names, more in [("temperature", {"temperature": -1}), ("temperature", {"temperature": 999999}), ("top_p", {"top_p": -1}),
                            ("repetition_penalty", {"repetition_penalty": 0}), ("n", {"n": 0}), ("n", {"n": -1}), ("n", {"n": 1000000}),
                            ("best_of", {"best_of": 1000000}), ("prompt", {"prompt": ["a"] * 100_000}), ("logprobs", {"logprobs": 1000000}),
                            ("prompt", {"prompt": [[1, 2], [320]]}), ("prompt", {"prompt": [[-1]]}), ("prompt", {"prompt": [[1.5]]}),
                            ("prompt", {"prompt": []}), ("prompt", {"prompt": [[]]}), ("prompt", {"prompt": [1, "a"]})]:
            self.refused(names, **more)
        self.e400(self.server, COMPLETIONS, '{"prompt":"B","max_tokens":1,"temperature":1e400}', within=1)
        self.e400(self.server, COMPLETIONS, '{"prompt":"B","max_tokens":1,"temperature":NaN}', within=1)
        much = self.server.post(COMPLETIONS, {"prompt": "B", "max_tokens": 10 ** 12})
        self.assertIn(much.status, (200, 400), much)
        self.alive(self.server)
        pieces = self.serve_here(models.scripted(self.folder / "pieces", {1: 277}, pieces=True))
        self.assertEqual(self.ok(pieces, COMPLETIONS, {"prompt": "", "max_tokens": 1})["usage"]["prompt_tokens"], 1)  # BOS, where there is one


if __name__ == "__main__":
    main()
