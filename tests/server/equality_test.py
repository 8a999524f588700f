#!/usr/bin/env python3
"""Streaming and not, both say the same: 300 random requests over four dialects (Done-when 7). The seed is in each failure."""
import os
import random

import models
from case import Case, main
from said import CHAT, COMPLETIONS, MESSAGES, RESPONSES, said_of_answer, said_of_events, streamed

REQUESTS = 300
SEED = int(os.environ.get("MILLRACE_SEED", "6"))
WORDS = ["hello", " world", "0741", "12", "STOP", "é", "\U0001F600", " ", "\n", "漢字", "<|im_end|>", "a", "BCB", "."]


def text(draw, most=12):
    return "".join(draw.choice(WORDS) for _ in range(draw.randint(1, most)))


def sampling(draw, body, fields):
    """Some of `fields`, each with a right value."""
    values = {
        "temperature": lambda: draw.choice([0, 0.3, 0.7, 1, 2]), "top_p": lambda: draw.choice([0.1, 0.9, 1]), "top_k": lambda: draw.choice([0, 1, 5, 40]),
        "min_p": lambda: draw.choice([0, 0.05]), "typical_p": lambda: draw.choice([0.5, 1]), "seed": lambda: draw.randrange(1 << 40),
        "presence_penalty": lambda: draw.uniform(-2, 2), "frequency_penalty": lambda: draw.uniform(-2, 2),
        "repetition_penalty": lambda: draw.choice([0.8, 1.1, 1.5]), "logit_bias": lambda: {str(draw.randrange(300)): draw.uniform(-50, 10)},
        "ignore_eos": lambda: True, "min_tokens": lambda: draw.randint(0, 3), "stop_token_ids": lambda: [draw.randrange(300)],
        "skip_special_tokens": lambda: draw.random() < 0.5, "include_stop_str_in_output": lambda: True, "user": lambda: "somebody",
    }
    for field in fields:
        if draw.random() < 0.25:
            body[field] = values[field]()
    body.setdefault("seed", draw.randrange(1 << 30))
    most = body.get("max_completion_tokens", body.get("max_tokens"))
    if most is not None:  # what contradicts itself is refused
        if "min_tokens" in body:
            body["min_tokens"] = min(body["min_tokens"], most)
        if most == 0:
            body["n"] = 1
    if body.get("echo") and "logprobs" in body:
        body["n"] = 1
    return body


def stops(draw):
    return draw.choice([draw.choice("abcdefgh 012"), [draw.choice(["a", "he", "\ufffd", "zz", "1", "ST"]) for _ in range(draw.randint(1, 4))]])


COMMON = ("temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias",
          "ignore_eos", "min_tokens", "stop_token_ids", "skip_special_tokens", "user")


def completion(draw):
    kind = draw.randrange(4)
    prompt = [text(draw), [text(draw) for _ in range(draw.randint(1, 3))], [draw.randrange(256) for _ in range(draw.randint(1, 30))],
              [[draw.randrange(256) for _ in range(draw.randint(1, 9))] for _ in range(2)]][kind]
    body = {"prompt": prompt}
    if draw.random() < 0.8:
        body["max_tokens"] = draw.randint(0, 40)
    else:
        body["max_tokens"] = None
    if draw.random() < 0.3:
        body["n"] = draw.randint(1, 3)
    if draw.random() < 0.3:
        body["logprobs"] = draw.randint(0, 5)
    if draw.random() < 0.2:
        body["echo"] = True
    if draw.random() < 0.4:
        body["stop"] = stops(draw)
    return COMPLETIONS, sampling(draw, body, (*COMMON, "include_stop_str_in_output"))


def messages(draw):
    out = [{"role": "system", "content": text(draw)}] if draw.random() < 0.3 else []
    for _ in range(draw.randint(0, 2)):
        out += [{"role": "user", "content": text(draw)}, {"role": "assistant", "content": text(draw)}]
    last = text(draw)
    return out + [{"role": "user", "content": draw.choice([last, [{"type": "text", "text": last}]])}]


def chat(draw):
    body = {"messages": messages(draw)}
    if draw.random() < 0.8:
        body[draw.choice(["max_tokens", "max_completion_tokens"])] = draw.randint(0, 40)
    if draw.random() < 0.3:
        body["n"] = draw.randint(1, 3)
    if draw.random() < 0.3:
        body["logprobs"] = True
        if draw.random() < 0.7:
            body["top_logprobs"] = draw.randint(0, 4)
    if draw.random() < 0.4:
        body["stop"] = stops(draw)
    return CHAT, sampling(draw, body, (*COMMON, "include_stop_str_in_output"))


def message(draw):
    said = messages(draw)
    body = {"model": "m", "max_tokens": draw.randint(1, 40), "messages": [m for m in said if m["role"] != "system"], "temperature": 0}
    if said[0]["role"] == "system":
        body["system"] = said[0]["content"]
    if draw.random() < 0.4:
        body["stop_sequences"] = [draw.choice(["a", "he", "1"])]
    return MESSAGES, body


def response(draw):
    said = messages(draw)
    if isinstance(said[-1]["content"], list):
        said[-1]["content"][0]["type"] = "input_text"
    body = {"input": draw.choice([text(draw), said]), "max_output_tokens": draw.randint(16, 40), "temperature": 0, "store": False}
    if draw.random() < 0.3:
        body["instructions"] = text(draw)
    return RESPONSES, body


def logprobs_of(path, whole):
    return {c["index"]: c.get("logprobs") for c in whole["choices"]} if path in (CHAT, COMPLETIONS) else {}


def joined_logprobs(path, events):
    out = {}
    for event in events:
        if path not in (CHAT, COMPLETIONS) or event.data == "[DONE]":
            continue
        for choice in event.data["choices"]:
            for key, value in (choice.get("logprobs") or {}).items():
                if value is not None:
                    out.setdefault(choice["index"], {}).setdefault(key, []).extend(value)
    return out


def filled(logprobs):
    """Without what is empty or null: a stream need not say it."""
    out = {i: {k: v for k, v in (lists or {}).items() if v} for i, lists in logprobs.items()}
    return {i: lists for i, lists in out.items() if lists}


class Equality(Case):
    def test_streamed_or_not_300_random_requests_say_the_same(self):
        server = self.serve(models.random_model(self.folder / "r", 2), "--served-model-name", "m", "--max-running", 16)
        draw = random.Random(SEED)
        asked = [draw.choice([completion, completion, chat, chat, message, response])(draw) for _ in range(REQUESTS)]
        failures, counts = [], {}

        def check(i):
            path, body = asked[i]
            what = f"seed {SEED}, request {i}: {path} {body}"
            try:
                answer = server.post(path, body)
                if answer.status != 200:
                    failures.append(f"{what}: {answer}")
                    return
                whole = answer.json
                events = server.stream(path, streamed(path, body))
                said, streamed_said = said_of_answer(path, whole), said_of_events(path, events)
                if said != streamed_said:
                    failures.append(f"{what}:\n  whole    {said}\n  streamed {streamed_said}")
                here, there = filled(logprobs_of(path, whole)), filled(joined_logprobs(path, events))
                if here != there:
                    failures.append(f"{what}: log-probabilities\n  whole    {here}\n  streamed {there}")
                for _, finish in said.choices.values():
                    counts[path, finish] = counts.get((path, finish), 0) + 1
            except Exception as error:  # noqa: in a thread: told below
                failures.append(f"{what}: {error!r}")

        def work(part):
            for i in part:
                check(i)
        self.together([lambda k=k: work(range(k, REQUESTS, 4)) for k in range(4)], timeout=300)
        print(f"{REQUESTS} requests, answers by end: {counts}")
        self.assertEqual(failures, [], "\n".join(failures[:10]))
        self.alive(server)


if __name__ == "__main__":
    main()
