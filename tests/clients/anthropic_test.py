"""/v1/messages with Anthropic's own Python client: typed streams, token counts, its exceptions."""
import unittest

from environment import enter_python_environment

enter_python_environment()

import anthropic  # noqa: E402: only in that environment
from served import MODEL, Server  # noqa: E402

server = None


def setUpModule():
    global server
    server = unittest.enterModuleContext(Server())


def client_of(server, key="any"):
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0, timeout=60)


def user(text):
    return [{"role": "user", "content": text}]


def input_tokens(answer):
    """Of the prompt, wherever they came from: input_tokens alone are those that were computed."""
    return answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0) + (answer.usage.cache_creation_input_tokens or 0)


GREEDY = dict(model=MODEL, extra_body={"temperature": 0})  # newer versions of the client have no such argument


class Messages(unittest.TestCase):
    def setUp(self):
        self.client = client_of(server)

    def test_answer(self):
        answer = self.client.messages.create(messages=user("Hello! Who are you?"), system="Be brief.", max_tokens=12, **GREEDY)
        self.assertEqual((answer.type, answer.role, answer.model, answer.stop_reason), ("message", "assistant", MODEL, "max_tokens"))
        self.assertEqual((answer.content[0].type, answer.usage.output_tokens), ("text", 12))
        blocks = self.client.messages.create(max_tokens=12, system=[{"type": "text", "text": "Be brief."}],
                                             messages=[{"role": "user", "content": [{"type": "text", "text": "Hello! Who are you?"}]}], **GREEDY)
        self.assertEqual(blocks.content[0].text, answer.content[0].text)

    def test_the_clients_accumulator_ends_with_the_same_message(self):
        for more in (dict(max_tokens=24), dict(max_tokens=200), dict(max_tokens=60, stop_sequences=["."])):
            asked = {**GREEDY, "messages": user("Hello! Who are you?"), **more}
            whole = self.client.messages.create(**asked)
            with self.client.messages.stream(**asked) as stream:
                text = "".join(stream.text_stream)
                final = stream.get_final_message()
            self.assertEqual(text, whole.content[0].text)
            self.assertEqual(final.content[0].text, whole.content[0].text)
            self.assertEqual((final.stop_reason, final.stop_sequence), (whole.stop_reason, whole.stop_sequence))
            self.assertEqual((input_tokens(final), final.usage.output_tokens), (input_tokens(whole), whole.usage.output_tokens))
        self.assertEqual((whole.stop_reason, whole.stop_sequence), ("stop_sequence", "."))

    def test_events_come_in_order(self):
        kinds = [event.type for event in self.client.messages.create(messages=user("Hi"), max_tokens=6, stream=True, **GREEDY)]
        order = [kind for i, kind in enumerate(kinds) if kind != "ping" and (i == 0 or kind != kinds[i - 1])]
        self.assertEqual(order, ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"])

    def test_count_tokens_is_what_a_message_uses(self):
        asked = dict(messages=user("How many tokens is this?"), system="Be brief.")
        counted = self.client.messages.count_tokens(model=MODEL, **asked).input_tokens
        answer = self.client.messages.create(max_tokens=4, **asked, **GREEDY)
        self.assertEqual(counted, input_tokens(answer))


class Errors(unittest.TestCase):
    def refused(self, kind, type, **more):
        with self.assertRaises(kind) as caught:
            client_of(server).messages.create(**{**GREEDY, "messages": user("Hi"), "max_tokens": 4, **more})
        self.assertEqual(caught.exception.body["type"], "error")
        self.assertEqual(caught.exception.body["error"]["type"], type)
        return caught.exception.body["error"]["message"]

    def test_their_kinds(self):
        self.assertIn("max_tokens", self.refused(anthropic.BadRequestError, "invalid_request_error", max_tokens=-1))
        self.assertIn("messages[0].role", self.refused(anthropic.BadRequestError, "invalid_request_error", messages=[{"role": "wizard", "content": "a"}]))
        self.assertIn("other", self.refused(anthropic.NotFoundError, "not_found_error", model="other"))
        self.assertIn("tools", self.refused(anthropic.BadRequestError, "invalid_request_error",
                                            tools=[{"name": "f", "input_schema": {"type": "object", "properties": {}}}]))
        self.refused(anthropic.BadRequestError, "invalid_request_error", messages=user("word " * 20000))
        self.refused(anthropic.BadRequestError, "invalid_request_error", messages=user("word " * 20000), stream=True)

    def test_keys_by_x_api_key(self):
        with Server("--api-key", "secret") as guarded:
            asked = dict(messages=user("Hi"), max_tokens=2, **GREEDY)
            with self.assertRaises(anthropic.AuthenticationError) as caught:
                client_of(guarded, "guess").messages.create(**asked)
            self.assertEqual(caught.exception.body["error"]["type"], "authentication_error")
            self.assertEqual(client_of(guarded, "secret").messages.create(**asked).usage.output_tokens, 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
