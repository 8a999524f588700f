"""OpenAI's own Python client against the server: chat, completions, embeddings, errors, retries, 64 streams at once."""
import asyncio
import time
import unittest

from environment import enter_python_environment

enter_python_environment()

import openai  # noqa: E402: only in that environment
from served import MODEL, Server  # noqa: E402

server = None


def setUpModule():
    global server
    server = unittest.enterModuleContext(Server())


def client_of(server, **more):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=more.pop("api_key", "any"), max_retries=more.pop("max_retries", 0), timeout=60, **more)


def user(text):
    return [{"role": "user", "content": text}]


GREEDY = dict(model=MODEL, temperature=0)


class Chat(unittest.TestCase):
    def setUp(self):
        self.client = client_of(server)

    def test_answer(self):
        answer = self.client.chat.completions.create(messages=user("Hello! Who are you?"), max_tokens=20, **GREEDY)
        choice = answer.choices[0]
        self.assertTrue(choice.message.content)
        self.assertEqual((choice.message.role, choice.index, choice.finish_reason), ("assistant", 0, "length"))
        self.assertEqual((answer.object, answer.model), ("chat.completion", MODEL))
        self.assertEqual(answer.usage.completion_tokens, 20)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 20)
        self.assertGreaterEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)

    def test_stream_says_the_same(self):
        for more in [dict(max_tokens=24), dict(max_tokens=60, stop=["\n", "."]), dict(max_tokens=12, n=3, seed=7, temperature=1.0)]:
            asked = {**GREEDY, "messages": user("Name three colours."), **more}
            whole = self.client.chat.completions.create(**asked)
            chunks = list(self.client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked))
            self.assertEqual((chunks[-1].choices, chunks[-1].usage.completion_tokens), ([], whole.usage.completion_tokens))
            self.assertEqual(len({(c.id, c.created, c.model) for c in chunks}), 1)
            for choice in whole.choices:
                parts = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
                self.assertEqual("".join(p.delta.content or "" for p in parts), choice.message.content)
                self.assertEqual([p.finish_reason for p in parts if p.finish_reason], [choice.finish_reason])
                self.assertEqual(parts[0].delta.role, "assistant")

    def test_the_clients_own_accumulator(self):
        asked = dict(messages=user("Hello! Who are you?"), max_tokens=200, **GREEDY)  # ends by itself: else the client raises
        whole = self.client.chat.completions.create(**asked)
        self.assertEqual(whole.choices[0].finish_reason, "stop")
        with self.client.chat.completions.stream(**asked) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            final = stream.get_final_completion()
        self.assertEqual("".join(deltas), whole.choices[0].message.content)
        self.assertEqual(final.choices[0].message.content, whole.choices[0].message.content)
        self.assertEqual(final.choices[0].finish_reason, whole.choices[0].finish_reason)

    def test_logprobs(self):
        answer = self.client.chat.completions.create(messages=user("Hi"), max_tokens=4, logprobs=True, top_logprobs=3, **GREEDY)
        rows = answer.choices[0].logprobs.content
        self.assertEqual(len(rows), 4)
        self.assertEqual("".join(row.token for row in rows), answer.choices[0].message.content)
        for row in rows:
            self.assertLessEqual(row.logprob, 0)
            self.assertEqual((row.top_logprobs[0].token, len(row.top_logprobs)), (row.token, 3))  # greedy: the likeliest

    def test_the_same_seed_gives_the_same_text(self):
        texts = [self.client.chat.completions.create(model=MODEL, messages=user("Tell me a story."), max_tokens=16, temperature=1, seed=seed)
                 .choices[0].message.content for seed in (5, 5, 6)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")


class ManyStreams(unittest.TestCase):
    def test_64_at_once_equal_their_solo_runs(self):
        asked = [dict(messages=user(f"What is {i} plus {3 * i}? Then say something about the number {i}."), max_tokens=16 + i % 9, **GREEDY) for i in range(64)]
        alone = [client_of(server).chat.completions.create(**one).choices[0] for one in asked]

        async def stream(client, one):
            text, reason = "", None
            async for chunk in await client.chat.completions.create(stream=True, **one):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    reason = choice.finish_reason or reason
            return text, reason

        async def all_at_once():
            async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="any", max_retries=0, timeout=120) as client:
                return await asyncio.gather(*(stream(client, one) for one in asked))

        together = asyncio.run(all_at_once())
        for i in range(64):
            self.assertEqual(together[i], (alone[i].message.content, alone[i].finish_reason), f"stream {i}")


class Errors(unittest.TestCase):
    def setUp(self):
        self.client = client_of(server)

    def refused(self, kind, **more):
        with self.assertRaises(kind) as caught:
            self.client.chat.completions.create(**{"model": MODEL, "messages": user("Hi"), "max_tokens": 4, **more})
        self.assertTrue(caught.exception.body["message"], "a structured error")
        return caught.exception

    def test_bad_values_name_their_field(self):
        for field, value in [("temperature", "hot"), ("max_tokens", -1), ("n", 0), ("top_p", 3), ("stop", 5)]:
            failure = self.refused(openai.BadRequestError, **{field: value})
            self.assertEqual((failure.param, failure.type), (field, "invalid_request_error"))
            self.assertIn(field, failure.body["message"])

    def test_a_path_into_the_messages(self):
        failure = self.refused(openai.BadRequestError, messages=[{"role": "wizard", "content": "a"}])
        self.assertEqual(failure.param, "messages[0].role")

    def test_what_is_not_served(self):
        failure = self.refused(openai.NotFoundError, model="other")
        self.assertEqual((failure.code, failure.param), ("model_not_found", "model"))
        self.assertIn("other", failure.body["message"])

    def test_tools_are_refused_by_name(self):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
        failure = self.refused(openai.BadRequestError, tools=[tool])
        self.assertEqual(failure.param, "tools")

    def test_a_prompt_beyond_the_context(self):
        failure = self.refused(openai.BadRequestError, messages=user("word " * 20000))
        self.assertEqual(failure.code, "context_length_exceeded")
        self.assertRegex(failure.body["message"], r"\d{5}")

    def test_before_a_stream_starts(self):
        failure = self.refused(openai.BadRequestError, stream=True, temperature=-1)
        self.assertEqual(failure.param, "temperature")

    def test_keys(self):
        with Server("--api-key", "secret") as guarded:
            for wrong in ("guess", "secre", "secret2"):
                with self.assertRaises(openai.AuthenticationError):
                    client_of(guarded, api_key=wrong).models.list()
            self.assertTrue(client_of(guarded, api_key="secret").models.list().data)


class FullQueue(unittest.TestCase):
    """One runs, one waits; the others are told when to come again."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--max-running", "1", "--max-queued-requests", "1"))

    def ask(self, retries, how_many, max_tokens):
        async def one(client, i):
            try:
                return await client.chat.completions.create(messages=user(f"Count from {i}."), max_tokens=max_tokens, extra_body={"ignore_eos": True}, **GREEDY)
            except openai.RateLimitError as failure:
                return failure

        async def run():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="any", max_retries=retries, timeout=60) as client:
                return await asyncio.gather(*(one(client, i) for i in range(how_many)))

        return asyncio.run(run())

    def test_without_retries_it_is_an_error_that_says_when(self):
        answers = self.ask(retries=0, how_many=8, max_tokens=60)
        refused = [answer for answer in answers if isinstance(answer, openai.RateLimitError)]
        self.assertGreaterEqual(len(refused), 5)
        for failure in refused:
            self.assertGreaterEqual(int(failure.response.headers["retry-after"]), 1)
            self.assertEqual(failure.code, "rate_limit_exceeded")
        self.assertEqual({answer.usage.completion_tokens for answer in answers if answer not in refused}, {60})

    def test_the_client_comes_again_and_all_are_served(self):
        answers = self.ask(retries=10, how_many=6, max_tokens=8)
        self.assertEqual([answer.usage.completion_tokens for answer in answers], [8] * 6)


class Cancel(unittest.TestCase):
    def test_a_stream_that_is_closed_frees_its_place_within_a_second(self):  # O8.6
        self.assertIsNotNone(server.settle(10))
        stream = client_of(server).chat.completions.create(messages=user("Write a long story."), max_tokens=2000, stream=True,
                                                           extra_body={"ignore_eos": True}, **GREEDY)
        for _, _chunk in zip(range(4), stream):
            pass
        self.assertEqual(server.metric("millrace_num_requests_running"), 1)
        stream.close()
        self.assertIsNotNone(server.settle(1))
        made = server.metric("millrace_generation_tokens_total")
        time.sleep(0.3)
        self.assertEqual(server.metric("millrace_generation_tokens_total"), made)


class Completions(unittest.TestCase):
    def setUp(self):
        self.client = client_of(server)

    def test_echo_and_logprobs(self):
        prompt = "The capital of France is"
        plain = self.client.completions.create(prompt=prompt, max_tokens=5, **GREEDY)
        echoed = self.client.completions.create(prompt=prompt, max_tokens=5, echo=True, logprobs=2, **GREEDY)
        self.assertEqual(echoed.choices[0].text, prompt + plain.choices[0].text)
        told = echoed.choices[0].logprobs
        self.assertEqual("".join(told.tokens), echoed.choices[0].text)
        self.assertIsNone(told.token_logprobs[0])  # nothing comes before the first token
        self.assertTrue(all(value <= 0 for value in told.token_logprobs[1:]))
        self.assertEqual(told.text_offset[0], 0)
        self.assertEqual(len(told.top_logprobs), len(told.tokens))

    def test_several_prompts_as_text_and_as_ids(self):
        ids = server.post("/tokenize", {"prompt": "The sky is"}).json["tokens"]
        texts = self.client.completions.create(prompt=["The sky is", "Two plus two is"], max_tokens=6, **GREEDY)
        self.assertEqual([choice.index for choice in texts.choices], [0, 1])
        by_id = self.client.completions.create(prompt=ids, max_tokens=6, **GREEDY)
        self.assertEqual(by_id.choices[0].text, texts.choices[0].text)

    def test_stream_says_the_same(self):
        asked = dict(prompt="Once upon a time", max_tokens=30, **GREEDY)
        whole = self.client.completions.create(**asked).choices[0]
        parts = [choice for chunk in self.client.completions.create(stream=True, **asked) for choice in chunk.choices]
        self.assertEqual("".join(part.text for part in parts), whole.text)
        self.assertEqual([part.finish_reason for part in parts if part.finish_reason], [whole.finish_reason])


class Embeddings(unittest.TestCase):
    def test_float_and_base64_are_the_same_unit_vectors(self):
        client = client_of(server)
        texts = ["The cat sat on the mat.", "A feline was sitting on a rug.", "Interest rates rose."]
        numbers = client.embeddings.create(model=MODEL, input=texts, encoding_format="float")
        packed = client.embeddings.create(model=MODEL, input=texts)  # the client asks for base64 then, and unpacks it
        self.assertEqual([row.index for row in numbers.data], [0, 1, 2])
        for row, other in zip(numbers.data, packed.data):
            self.assertAlmostEqual(sum(x * x for x in row.embedding), 1, places=4)
            self.assertEqual(len(row.embedding), len(other.embedding))
            self.assertLess(max(abs(a - b) for a, b in zip(row.embedding, other.embedding)), 1e-6)
        self.assertEqual(numbers.usage.prompt_tokens, numbers.usage.total_tokens)
        one = client.embeddings.create(model=MODEL, input=texts[1]).data[0].embedding
        self.assertEqual(one, packed.data[1].embedding)  # alone or in company


if __name__ == "__main__":
    unittest.main(verbosity=1)
