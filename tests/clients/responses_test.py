"""/v1/responses with OpenAI's own Python client: its typed objects, its accumulator of streams, conversations by id."""
import unittest

from environment import enter_python_environment

enter_python_environment()

import openai  # noqa: E402: only in that environment
from served import MODEL, Server  # noqa: E402

client = None


def setUpModule():
    global client
    client = openai.OpenAI(base_url=unittest.enterModuleContext(Server()).url + "/v1", api_key="any", max_retries=0, timeout=60)


GREEDY = dict(model=MODEL, temperature=0)


class Responses(unittest.TestCase):
    def test_text_instructions_and_input_items_say_what_chat_says(self):
        said = client.chat.completions.create(max_tokens=24, messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi!"}], **GREEDY)
        by_text = client.responses.create(instructions="Be brief.", input="Hi!", max_output_tokens=24, **GREEDY)
        by_items = client.responses.create(max_output_tokens=24, input=[
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "input_text", "text": "Hi!"}]}], **GREEDY)
        for response in (by_text, by_items):
            self.assertEqual(response.output_text, said.choices[0].message.content)
            self.assertEqual((response.object, response.model, response.error), ("response", MODEL, None))
            self.assertEqual((response.usage.input_tokens, response.usage.output_tokens), (said.usage.prompt_tokens, said.usage.completion_tokens))
            message = response.output[0]
            self.assertEqual((message.type, message.role, message.content[0].type), ("message", "assistant", "output_text"))

    def test_an_answer_that_is_cut_says_so(self):
        response = client.responses.create(input="Write a long story.", max_output_tokens=16, extra_body={"ignore_eos": True}, **GREEDY)
        self.assertEqual((response.status, response.incomplete_details.reason), ("incomplete", "max_output_tokens"))

    def test_the_clients_accumulator_ends_with_the_same_response(self):
        asked = dict(input="Name three colours.", max_output_tokens=30, **GREEDY)
        whole = client.responses.create(**asked)
        deltas, kinds, numbers = [], [], []
        with client.responses.stream(**asked) as stream:
            for event in stream:
                kinds.append(event.type)
                numbers.append(event.sequence_number)
                if event.type == "response.output_text.delta":
                    deltas.append(event.delta)
                    self.assertEqual(event.snapshot, "".join(deltas))  # what the client itself has put together
                elif event.type == "response.output_text.done":
                    self.assertEqual(event.text, "".join(deltas))
            final = stream.get_final_response() if kinds[-1] == "response.completed" else None
        self.assertEqual("".join(deltas), whole.output_text)
        self.assertEqual(kinds[:2], ["response.created", "response.in_progress"])
        self.assertIn(kinds[-1], ("response.completed", "response.incomplete"))
        self.assertEqual(numbers, sorted(set(numbers)))
        for one, other in [("response.output_item.added", "response.output_item.done"), ("response.content_part.added", "response.content_part.done")]:
            self.assertEqual((kinds.count(one), kinds.count(other)), (1, 1))
            self.assertLess(kinds.index(one), kinds.index(other))
        if final:
            self.assertEqual((final.output_text, final.usage.output_tokens), (whole.output_text, whole.usage.output_tokens))

    def test_a_streamed_answer_that_ends_by_itself_completes(self):
        with client.responses.stream(input="Hello! Who are you?", max_output_tokens=200, **GREEDY) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            final = stream.get_final_response()
        self.assertEqual((final.status, final.output_text), ("completed", text))

    def test_a_conversation_by_id(self):
        first = client.responses.create(input="My name is Ada. Remember it.", max_output_tokens=30, **GREEDY)
        second = client.responses.create(input="What is my name?", previous_response_id=first.id, max_output_tokens=30, **GREEDY)
        spelled = client.chat.completions.create(max_tokens=30, messages=[
            {"role": "user", "content": "My name is Ada. Remember it."}, {"role": "assistant", "content": first.output_text},
            {"role": "user", "content": "What is my name?"}], **GREEDY)
        self.assertEqual(second.output_text, spelled.choices[0].message.content)
        self.assertEqual(second.previous_response_id, first.id)
        self.assertGreater(second.usage.input_tokens_details.cached_tokens, 0)
        self.assertEqual(client.responses.retrieve(first.id).output_text, first.output_text)
        client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            client.responses.retrieve(first.id)

    def test_what_was_not_stored_cannot_be_gone_on_from(self):
        response = client.responses.create(input="Hi", store=False, max_output_tokens=8, **GREEDY)
        with self.assertRaises(openai.NotFoundError):
            client.responses.retrieve(response.id)
        with self.assertRaises(openai.BadRequestError) as caught:
            client.responses.create(input="And?", previous_response_id=response.id, **GREEDY)
        self.assertEqual(caught.exception.code, "previous_response_not_found")

    def test_errors_name_their_field(self):
        for field, value in [("temperature", "hot"), ("max_output_tokens", -1), ("input", 5),
                             ("tools", [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}])]:
            with self.assertRaises(openai.BadRequestError) as caught:
                client.responses.create(**{**GREEDY, "input": "Hi", "max_output_tokens": 8, field: value})
            self.assertEqual(caught.exception.param, field)


if __name__ == "__main__":
    unittest.main(verbosity=1)
